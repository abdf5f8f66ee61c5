"""pi, a coding agent that runs as a program of its own (B1 to B3, B14)."""

from __future__ import annotations

from jupyter_ahp.agents.pi.agent import PiAgent

__all__ = ["PiAgent"]
