"""What can go wrong with a model's API, in words for the person: what happened, what is safe, what to do.

Imported with the model library, at the first use.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from typing import Final, NamedTuple

import httpx2
from pydantic_ai.exceptions import (
    AgentRunError,
    ContentFilterError,
    IncompleteToolCall,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelServerError,
    ModelUnavailableError,
    UnexpectedModelBehavior,
)

from jupyter_ahp.agents.assistant.models import Endpoint
from jupyter_ahp.agents.base import TurnFailed


class NotAModel(Exception):
    """The API answered with a web page."""


Failure = AgentRunError | httpx2.HTTPError | httpx2.StreamError | NotAModel
FAILURES: Final = (AgentRunError, httpx2.HTTPError, httpx2.StreamError, NotAModel)
"""Everything that a request to a model raises for reasons outside of this program."""

LONGEST_WAIT = 10.0
"""Seconds that we wait by ourselves when asked to; a longer wait is told to the person instead."""

DETAILS_LIMIT = 4000

_TOO_LONG = re.compile(
    r"context (length|size|window)|exceed_context|prompt is too long|too many tokens", re.I
)


_NO_TOOLS = re.compile(r"\b(tools?|tool[_ -]choice|tool[_ -]use|function[_ -]call(ing|s)?)\b", re.I)

_NO_EFFORT = re.compile(r"reasoning[_. ]?effort|\breasoning\b|\bthinking\b", re.I)


async def refuse_web_page(response: httpx2.Response) -> None:
    """For an HTTP client: raises `NotAModel` for a page that a proxy, a sign-in or a wrong address gave as an answer."""
    if response.is_success and response.headers.get("content-type", "").startswith("text/html"):
        raise NotAModel(f"{response.url.host} answered with a web page")


def unfinished(model: str) -> ModelAPIError:
    """For an answer that ended in good order, but before the model said that it was finished."""
    return ModelAPIError(model, "The stream ended without a finish_reason")


def too_long(error: Failure) -> bool:
    """Whether the model was told more than it can read."""
    return isinstance(error, ModelContextWindowExceededError) or (
        isinstance(error, ModelHTTPError)
        and error.status_code in (400, 413, 500)
        and bool(_TOO_LONG.search(str(error)))
    )


def refused(error: Failure) -> bool:
    """Whether the server would not have the request, and would not have it the next time either."""
    return isinstance(error, ModelRequestRejectedError)


def takes_no_tools(error: Failure) -> bool:
    """Whether a request may have been turned down because it offered tools. Servers say so in many words."""
    return (
        isinstance(error, ModelHTTPError)
        and error.status_code in (400, 404, 405, 422, 500, 501)
        and bool(_NO_TOOLS.search(str(error.body)))
    )


def takes_no_effort(error: Failure) -> bool:
    """Whether a request may have been turned down because it said how much the model is to think."""
    return (
        isinstance(error, ModelHTTPError)
        and error.status_code in (400, 404, 422)
        and bool(_NO_EFFORT.search(str(error.body)))
    )


def wait_before_retry(error: Failure, attempt: int, backoff: float) -> float | None:
    """Seconds until the same request may be sent again, or None when it should not be."""
    if isinstance(error, ModelHTTPError) and error.provider_retry_hint is False:
        return None
    if not isinstance(error, ModelRateLimitError | ModelUnavailableError | ModelServerError):
        return None
    if too_long(error):
        return None
    wait = error.retry_after if error.retry_after is not None else backoff * 2 ** (attempt - 1)
    return wait if wait <= LONGEST_WAIT else None


def explain(
    error: Failure, endpoint: Endpoint, *, key: str | None, came: bool, stall_seconds: float
) -> TurnFailed:
    """The failure as the turn's end. `came`: something of the answer was there already. The key is never in it."""
    safe = "What it wrote is kept." if came else "Nothing was lost."
    # A model that nobody named would only mislead.
    who = endpoint.where if endpoint.guessed else f"{endpoint.model} at {endpoint.where}"
    words = (
        _refusal(error, endpoint, who, safe)
        or _connection(error, who, safe, stall_seconds)
        or _no_answer(error, who, safe, came=came)
    )
    return TurnFailed(
        words.error_type, words.message, resumable=words.resumable, details=_details(error, key)
    )


class Words(NamedTuple):
    error_type: str
    message: str
    resumable: bool = True


def _refusal(error: Failure, endpoint: Endpoint, who: str, safe: str) -> Words | None:
    """The API answered, and not with an answer of the model."""
    if too_long(error):
        which = "the model" if endpoint.guessed else endpoint.model
        return Words(
            "context_length",
            f"The chat is longer than {which} can read. {safe} Start a new chat, rewind this one, attach less, "
            "or choose a model with a larger context.",
            False,
        )
    match error:
        case ModelAuthenticationError():
            advice = _key_advice(endpoint)
            return Words("authentication", f"{who} refused the key ({_status(error)}). {safe} {advice}", True)
        case ModelNotFoundError():
            advice = _model_advice(endpoint)
            has = f"has no model {endpoint.model}"
            if endpoint.guessed:
                has = "does not have the model that is asked for when none is named"
            return Words("model_not_found", f"{endpoint.where} {has}. {safe} {advice}", False)
        case ModelQuotaExceededError():
            return Words(
                "quota",
                f"The account for {endpoint.where} has no credit left ({_status(error)}). {safe} "
                "Add credit, or choose another model.",
            )
        case ModelRateLimitError() | ModelUnavailableError() | ModelServerError():
            what = "failed" if isinstance(error, ModelServerError) else "is busy"
            wait = f" It asks to wait {error.retry_after:.0f} s." if error.retry_after else ""
            return Words(
                "busy", f"The model's server {what} ({who}, {_status(error)}).{wait} {safe} Try again."
            )
        case ModelRequestRejectedError():
            return Words(
                "rejected", f"{who} did not take the request ({_status(error)}): {_said(error)} {safe}", False
            )
        case IncompleteToolCall():
            return Words(
                "length",
                f"{who} reached its limit of length while it called a tool, which was not run. What it wrote is kept. "
                "Ask for less at once.",
            )
        case ContentFilterError():
            return Words(
                "content_filter", f"{who} refused to answer this. {safe} Say it in other words.", False
            )
    return None


def _connection(error: Failure, who: str, safe: str, stall_seconds: float) -> Words | None:
    """The network between us and the API."""
    causes = list(_causes(error))

    def caused_by(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    if caused_by(NotAModel):
        return None
    if caused_by(ssl.SSLError):
        return Words(
            "tls",
            f"The certificate of {who} is not trusted here. {safe} If a proxy of your network signs it, set "
            "SSL_CERT_FILE to its certificates and restart the server.",
        )
    if caused_by(httpx2.ProxyError):
        return Words(
            "proxy",
            f"The proxy did not let the request to {who} through. {safe} See HTTPS_PROXY and NO_PROXY.",
        )
    if caused_by(httpx2.ConnectError, httpx2.ConnectTimeout):
        return Words(
            "connection", f"Nothing answers for {who}. {safe} Is its server running, and the address right?"
        )
    if caused_by(httpx2.TimeoutException):
        return Words("stalled", f"{who} said nothing for {stall_seconds:g} s. {safe} Try again.")
    if caused_by(httpx2.TransportError) or isinstance(error, ModelConnectionError):
        return Words("connection", f"The connection to {who} broke off. {safe} Try again.")
    return None


def _no_answer(error: Failure, who: str, safe: str, *, came: bool) -> Words:
    """The API answered, but the answer cannot be used, or is not whole."""
    if isinstance(error, ModelAPIError) and "finish_reason" in error.message:
        return Words("connection", f"The answer of {who} ended before it was finished. {safe} Try again.")
    if isinstance(error, ModelAPIError) and error.in_stream:
        return Words("busy", f"The model's server failed ({who}): {_said(error)} {safe} Try again.")
    if isinstance(error, UnexpectedModelBehavior) and not came:
        return Words("empty", f"{who} answered nothing. {safe} Try again, or choose another model.")
    return Words(
        "malformed",
        f"{who} sent something that is no answer of a model. {safe} Is its address right? Does a proxy or a sign-in page "
        "stand between?",
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _status(error: ModelAPIError) -> str:
    return (
        str(error.status_code)
        if isinstance(error, ModelHTTPError)
        else (error.provider_error_code or "no status")
    )


def _said(error: ModelAPIError) -> str:
    """The server's own sentence, if there is one."""
    body = error.body
    for key in ("error", "message"):
        if isinstance(body, dict) and key in body:
            body = body[key]
    text = body if isinstance(body, str) else error.message
    return text[:300].rstrip().rstrip(".") + "."


def _key_advice(endpoint: Endpoint) -> str:
    if endpoint.key_variable is None:
        return "It wants a key: name the environment variable that has it as api_key_env in AssistantAgent.models."
    return f"Check {endpoint.key_variable} in the server's environment, and restart the server when it is changed."


def _model_advice(endpoint: Endpoint) -> str:
    if endpoint.model_variable is None:
        return "Choose another model, or correct `model` or `base_url` in AssistantAgent.models."
    return f"Choose another model, or name one in {endpoint.model_variable} and restart the server."


def _details(error: BaseException, key: str | None) -> str:
    text = "\n".join(f"{type(cause).__name__}: {cause}" for cause in _causes(error))
    if key:
        text = text.replace(key, "***")
    return text[:DETAILS_LIMIT]
