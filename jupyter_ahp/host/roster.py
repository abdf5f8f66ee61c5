"""The agents that are served, and what clients are told of them (AHP 2.1).

An agent that cannot be used is listed with the reason and the fix, and never breaks the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from ..protocol.meta import STEERING
from .approvals import with_setting
from .ports import Agent, Json, Model, Probe

log = logging.getLogger(__name__)

UNAVAILABLE = "jupyter-ahp.unavailable"
NOTE = "jupyter-ahp.note"
NO_SETTINGS: Json = {"type": "object", "properties": {}}
_PATIENCE = 3.0  # seconds for one agent's probe


class Roster:
    """Agents by provider, in the order in which they are offered, with what their last probe said."""

    def __init__(self, agents: Sequence[Agent], default: str) -> None:
        self.agents = {agent.provider: agent for agent in agents}
        self._default = default
        self._probes: dict[str, Probe] = {}

    async def probe(self) -> list[Json]:
        """Look at every agent, all at once; what root state says of them."""
        agents = list(self.agents.values())
        for agent, probe in zip(agents, await asyncio.gather(*map(_probe, agents)), strict=True):
            self._probes[agent.provider] = probe
        return [self.info(agent) for agent in agents]

    async def look(self, provider: str) -> Probe:
        """What one agent says of itself now. Raises `KeyError`."""
        return await _probe(self.agents[provider])

    def probed(self, provider: str) -> Probe:
        return self._probes.get(provider, Probe(False, reason="It was not looked at yet."))

    @property
    def default(self) -> str | None:
        """The provider of a session that names none: the configured one, else the first that is ready."""
        if self._default in self.agents:
            return self._default
        ready = (name for name in self.agents if self.probed(name).ready)
        return next(ready, next(iter(self.agents), None))

    def ready(self) -> list[str]:
        return [name for name in self.agents if self.probed(name).ready]

    def schema(self, provider: str, chosen: Json) -> Json:
        """The settings of an agent's sessions; none where it is not served, or cannot say them."""
        agent = self.agents.get(provider)
        try:
            schema = agent.config_schema(chosen) if agent is not None else {**NO_SETTINGS}
        except Exception:
            log.exception("Agent %s does not say its settings; its sessions have none", provider)
            schema = {**NO_SETTINGS}
        return with_setting(schema) if agent is not None and agent.capabilities.tools else schema

    def defaults(self, provider: str, chosen: Json) -> Json:
        """What the settings of a new session are where nothing is chosen."""
        properties = self.schema(provider, chosen).get("properties", {})
        return {key: prop["default"] for key, prop in properties.items() if prop.get("default") is not None}

    def info(self, agent: Agent) -> Json:
        """`AgentInfo`. At least one model, and `protectedResources` always: clients take their absence for a gate."""
        probe = self.probed(agent.provider)
        can = agent.capabilities
        capabilities: Json = {}
        if can.several_chats:
            # A side chat needs nothing of the backend: what it is told goes into its first prompt (S6).
            capabilities["multipleChats"] = {"sideChat": True, **({"fork": True} if can.fork else {})}
        if can.several_directories:
            capabilities["multipleWorkingDirectories"] = {}
        info: Json = {
            "provider": agent.provider,
            "displayName": agent.display_name,
            "description": agent.description,
            "models": [_model(agent.provider, model, probe.ready) for model in probe.models]
            or [_model(agent.provider, Model("default", agent.display_name), probe.ready)],
            "protectedResources": [],
            "capabilities": capabilities,
        }
        meta: Json = {STEERING: True} if can.steering else {}
        if not probe.ready:
            meta[UNAVAILABLE] = {"reason": probe.reason, "fix": probe.fix}
        elif probe.note:
            meta[NOTE] = probe.note
        if meta:
            info["_meta"] = meta
        return info


def _model(provider: str, model: Model, ready: bool) -> Json:
    out: Json = {"id": model.id, "provider": provider, "name": model.name, "supportsVision": model.vision}
    if model.context_window is not None:
        out["maxContextWindow"] = model.context_window
    if not ready:
        out["policyState"] = "disabled"
    return out


async def _probe(agent: Agent) -> Probe:
    try:
        async with asyncio.timeout(_PATIENCE):
            return await agent.probe()
    except TimeoutError:
        return Probe(
            False, reason=f"It did not answer within {_PATIENCE:.0f} s.", fix="Look into the server's log."
        )
    except Exception as error:
        log.exception("Agent %s could not be looked at", agent.provider)
        return Probe(
            False, reason=f"It failed: {error or type(error).__name__}.", fix="Look into the server's log."
        )
