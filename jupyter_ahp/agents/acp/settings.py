"""What an ACP agent lets people choose, and what else it says of itself: models, modes, options, commands.

An agent says this of a session that it has begun, and people want to choose before. So what it said last is kept, for the
next session and for the next server: `Learned`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from jupyter_ahp.agents.base import Command, Json, Model

if TYPE_CHECKING:
    from acp.schema import (
        AvailableCommand,
        SessionConfigOptionBoolean,
        SessionConfigOptionSelect,
        SessionModeState,
    )

log = logging.getLogger(__name__)

Told: TypeAlias = Literal["option", "mode", "model"]
"""How the agent is told a choice: `session/set_config_option`, `session/set_mode`, or `session/set_model`, which agents
have that are older than options."""

MODE = "mode"


@dataclass(frozen=True, slots=True)
class Choice:
    value: str
    name: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Option:
    """Something to choose, with what is chosen. `choices` is empty for yes or no."""

    id: str
    name: str
    current: str | bool
    choices: Sequence[Choice] = ()
    description: str = ""
    category: str = ""
    told: Told = "option"

    def takes(self, value: object) -> bool:
        if not self.choices:
            return isinstance(value, bool)
        return any(choice.value == value for choice in self.choices)

    def with_current(self, value: str | bool) -> Option:
        return replace(self, current=value)

    @property
    def schema(self) -> Json:
        """AHP `SessionConfigPropertySchema`."""
        schema: Json = {
            "type": "string" if self.choices else "boolean",
            "title": self.name,
            "default": self.current,
            "sessionMutable": True,
        }
        if self.description:
            schema["description"] = self.description
        if self.choices:
            schema["enum"] = [choice.value for choice in self.choices]
            schema["enumLabels"] = [choice.name for choice in self.choices]
            schema["enumDescriptions"] = [choice.description for choice in self.choices]
        return schema


def options_of(
    options: Sequence[SessionConfigOptionSelect | SessionConfigOptionBoolean] | None,
    modes: SessionModeState | None,
    models: Any = None,
) -> dict[str, Option]:
    """What a session offers, by id. Modes and models of their own count where no option takes their place."""
    found = {option.id: _option(option) for option in options or ()}
    has = {option.category for option in found.values()}
    if modes is not None and modes.available_modes and "mode" not in has:
        choices = [Choice(mode.id, mode.name, mode.description or "") for mode in modes.available_modes]
        found[MODE] = Option(MODE, "Mode", modes.current_mode_id, choices, category="mode", told="mode")
    if isinstance(models, dict) and models.get("availableModels") and "model" not in has:
        known = [
            Choice(m["modelId"], m.get("name") or m["modelId"], m.get("description") or "")
            for m in models["availableModels"]
        ]
        found["model"] = Option(
            "model", "Model", models.get("currentModelId", ""), known, category="model", told="model"
        )
    return found


def _option(option: Any) -> Option:
    category = option.category if isinstance(option.category, str) else ""
    listed = [one for entry in getattr(option, "options", ()) for one in getattr(entry, "options", [entry])]
    choices = [Choice(one.value, one.name, one.description or "") for one in listed]
    return Option(option.id, option.name, option.current_value, choices, option.description or "", category)


@dataclass(slots=True)
class Learned:
    """What an agent has said of itself, in whichever chat. Kept in a file, if there is a place for it."""

    path: Path | None = None
    options: dict[str, Option] = field(default_factory=dict)
    commands: list[Command] = field(default_factory=list)
    vision: bool = False
    _unsaved: bool = False
    _saving: asyncio.Task[None] | None = None

    @classmethod
    def read(cls, path: Path | None) -> Learned:
        """What was kept; nothing where that cannot be read."""
        learned = cls(path)
        if path is None or not path.exists():
            return learned
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            for entry in kept["options"]:
                choices = [Choice(**choice) for choice in entry.pop("choices")]
                learned.options[entry["id"]] = Option(**entry, choices=choices)
            learned.commands = [Command(**command) for command in kept["commands"]]
            learned.vision = bool(kept["vision"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("%s is not read, and written anew: %s", path, error)
            return cls(path)
        return learned

    @property
    def models(self) -> list[Model]:
        """The one that the agent takes by itself is the first."""
        option = next((one for one in self.options.values() if one.category == "model"), None)
        if option is None:
            return []
        first = sorted(option.choices, key=lambda choice: choice.value != option.current)
        return [Model(choice.value, choice.name, vision=self.vision) for choice in first]

    @property
    def schema(self) -> Json:
        """AHP `SessionConfigSchema`; a model is chosen with the message."""
        chosen = [option for option in self.options.values() if option.category != "model"]
        return {"type": "object", "properties": {option.id: option.schema for option in chosen}}

    def learn(
        self,
        *,
        options: dict[str, Option] | None = None,
        commands: Sequence[AvailableCommand] | None = None,
        vision: bool | None = None,
    ) -> None:
        before = self._kept()
        if options:
            self.options = dict(options)
        if commands is not None:
            # "memory show" is one of "memory", and no word that a message can begin with.
            self.commands = [_command(command) for command in commands if len(command.name.split()) == 1]
        if vision is not None:
            self.vision = vision
        if self._kept() != before and self.path is not None:
            self._unsaved = True
            if self._saving is None:
                self._saving = asyncio.create_task(self._save(self.path))

    def _kept(self) -> Json:
        return {
            "options": [asdict(option) for option in self.options.values()],
            "commands": [asdict(command) for command in self.commands],
            "vision": self.vision,
        }

    async def _save(self, path: Path) -> None:
        try:
            while self._unsaved:
                await asyncio.sleep(0)  # what is said at once is written at once
                self._unsaved = False
                await asyncio.to_thread(_write, path, json.dumps(self._kept(), indent=1))
        except OSError as error:
            log.warning("What %s offers is asked again after a restart: %s", path.stem, error)
        finally:
            self._saving = None

    async def close(self) -> None:
        """What was learned is written."""
        if self._saving is not None:
            await self._saving


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(f".{os.getpid()}.new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)


def _command(command: AvailableCommand) -> Command:
    hint = command.input.root.hint if command.input is not None else ""
    return Command(command.name, command.description, hint)
