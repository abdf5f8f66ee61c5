"""What runs a command or a shell on a terminal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Launch:
    """What is to run on a pseudo-terminal."""

    directory: str
    """An absolute path; it is there."""
    argv: Sequence[str] = ()
    """Empty: the interactive shell of whoever runs this."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """On top of this process's own."""
    columns: int = 120
    rows: int = 30


class Pty(ABC):
    """Something that runs on a pseudo-terminal. Every method does nothing once it has ended."""

    @abstractmethod
    def write(self, text: str) -> None:
        """Type into it; never blocks. Raises `OSError`, with words, when it has not read what was typed before."""

    @abstractmethod
    def resize(self, columns: int, rows: int) -> None: ...

    @abstractmethod
    async def kill(self) -> None:
        """End it with its whole process group, and with what it started that left the group: asked first, forced half a
        second later. It has ended on return."""


class Ptys(ABC):
    """Where commands and shells run."""

    @abstractmethod
    def start(
        self, launch: Launch, output: Callable[[str], None], ended: Callable[[int | None], None]
    ) -> Pty:
        """Start it; called, and calling back, on the event loop. Raises `OSError` or `ValueError` if it cannot start.

        `output` is given what it prints, as it comes; `ended`, once and last, its exit code: what a shell says of one
        that a signal ended (128 and the signal), None when nobody knows. What it left running in the background may go on.
        """
