"""When a chat, or a turn, gets longer than its model can read (T9). Imported with the model library, at the first use.

First what was said first is summarised; if that comes to nothing the older half of it is left out, and then what the turn's
own tools said is cut. How much a model can read is known, or learnt from a request that was refused.
"""

from __future__ import annotations

import json
import logging

from pydantic_ai import Agent

from jupyter_ahp.agents.assistant import compaction
from jupyter_ahp.agents.assistant.compaction import Plan
from jupyter_ahp.agents.assistant.connections import Connections
from jupyter_ahp.agents.assistant.failures import FAILURES, refused, too_long
from jupyter_ahp.agents.assistant.history import all_tokens, fit, merged, summary_said
from jupyter_ahp.agents.assistant.messages import has_images, size_of, with_short_results
from jupyter_ahp.agents.assistant.models import Endpoint
from jupyter_ahp.agents.assistant.run import Run, add_usage
from jupyter_ahp.agents.assistant.sizes import estimated_tokens
from jupyter_ahp.protocol.meta import SUMMARY

log = logging.getLogger(__name__)


class Room:
    """Makes it, and remembers of all models how much they can read."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._limits: dict[Endpoint, int] = {}
        """The sizes of the smallest requests that were refused for their size, in tokens as we estimate them."""
        self._make_none: set[Endpoint] = set()
        """Models that were seen to refuse to make a summary."""

    async def refused(self, run: Run) -> bool:
        """The request was refused for its size: make it smaller. False when there is nothing to do without."""
        endpoint, size = run.call.endpoint, _size(run)
        if not has_images(run.messages):  # whose size we do not know: then nothing is learnt from a refusal
            self._limits[endpoint] = min(size, self._limits.get(endpoint, size))
        limit = min(size, self._limit(endpoint) or size)
        return await self._summarise(run, limit) or _forget(run) or _shorten(run)

    def _limit(self, endpoint: Endpoint) -> int | None:
        """Tokens, as we estimate them (rather too many), that are too many for it; None: not known."""
        known = [endpoint.context_window, self._limits.get(endpoint)]
        return min((limit for limit in known if limit is not None), default=None)

    async def fit(self, run: Run) -> None:
        """Make room ahead of the first request, where it is known that there is not enough."""
        limit, learnt = self._limit(run.call.endpoint), self._limits.get(run.call.endpoint)
        if limit is None or _size(run) < limit:
            return
        await self._summarise(run, limit)
        while learnt is not None and _size(run) >= learnt and _forget(run):
            pass

    async def _summarise(self, run: Run, limit: int) -> bool:
        """Have what was said first summarised by the model, once a turn; False if it comes to nothing."""
        call = run.call
        if run.summarised or call.endpoint in self._make_none:
            return False
        if (plan := compaction.plan(call.earlier, limit)) is None:
            return False
        run.summarised = True
        run.sink.activity("Summarising what was said first, to make room")
        text = await self._summary(run, plan, limit // 2)
        if not text:
            return False
        summary = summary_said(text)
        own = call.said[-call.own :]
        run.whole = merged([*(one for turn in plan.kept for one in turn.said), *own])
        run.tell(run.whole, summary)
        run.sink.notice(
            plan.notice(call.endpoint.model, summary), meta={SUMMARY: {"text": text, "through": plan.through}}
        )
        run.sink.activity("Thinking")
        return True

    async def _summary(self, run: Run, plan: Plan, tokens: int) -> str:
        """What the model makes of it, in requests of about that many tokens or fewer; "" if they fail."""
        settings = self._connections.settings(run.call, effort=False)
        agent = Agent(self._connections.model(run.call), model_settings=settings)
        for room in (tokens, tokens // 2, tokens // 4):
            text = run.summary.text if run.summary is not None else ""
            try:
                for piece in compaction.pieces(plan.covered, max(room, compaction.WORTH)):
                    async with agent.run_stream(compaction.asking(piece, text)) as answer:
                        text = compaction.short(await answer.get_output())
                        add_usage(run.tally, answer.response)
            except FAILURES as error:
                if too_long(error):
                    continue
                log.info("%s could not summarise a chat: %s", run.call.endpoint.model, error)
                if refused(error):
                    self._make_none.add(run.call.endpoint)
                return ""
            return text
        return ""


def _forget(run: Run) -> bool:
    """Leave the older half of what was said before this turn out of the request, at last the summary too (T9).

    False when there is nothing of it."""
    own = run.call.own
    if len(run.said) > own:
        run.tell(fit(run.said, all_tokens(run.said) // 2, own) or run.said[-own:], run.summary)
        return True
    if run.summary is not None:
        run.tell(run.said, None)
        return True
    return False


def _shorten(run: Run) -> bool:
    """Cut what the tools of this turn said, when there is nothing else to do without; False when that is short."""
    if (short := with_short_results(run.messages)) is None:
        return False
    run.messages = short
    run.sink.notice(
        f"This turn became longer than {run.call.endpoint.model} can read: it goes on with less of what its tools said."
    )
    return True


def _size(run: Run) -> int:
    """About how many tokens the request is that is to be answered."""
    call = run.call
    told = call.instructions + "".join(
        f"{tool.name} {tool.description} {json.dumps(tool.parameters)}" for tool in run.tools
    )
    return size_of(run.messages) + estimated_tokens(told)
