"""Which plugins there are: the ones that come with us, those of installed packages, and those that are configured.

Modules are imported in a thread, `register` is called on the event loop. A plugin that cannot be imported, fails or hangs
is named in the log and left out.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any, Final

from jupyter_ahp.host.ports import Extensible

from .host import PluginHost

GROUP: Final = "jupyter_ahp.plugins"
BUILT_IN: Final[Mapping[str, str]] = MappingProxyType({"preview": "jupyter_ahp.plugins.preview:register"})
"""Name to `module:register`."""
_PATIENCE = 10.0
"""Seconds that a plugin has to register."""


class Plugins:
    """The plugins of one host."""

    def __init__(self, hosts: Sequence[PluginHost], endings: Mapping[str, Callable[[], Any]]) -> None:
        self._hosts = hosts
        self._endings = endings

    @property
    def names(self) -> list[str]:
        return [host.name for host in self._hosts]

    async def close(self) -> None:
        """Take them out, in the reverse order. Raises nothing."""
        for host in reversed(self._hosts):
            ending = self._endings.get(host.name)
            if ending is not None:
                try:
                    async with asyncio.timeout(_PATIENCE):
                        await _called(ending)
                except Exception:
                    host.log.exception("The plugin %s did not end as it said it would", host.name)
            await host.unregister()


async def load_plugins(
    host: Extensible,
    configured: Sequence[str] = (),
    *,
    without: Sequence[str] = (),
    installed: Iterable[EntryPoint] | None = None,
    log: logging.Logger | None = None,
) -> Plugins:
    """Register the plugins of a host.

    Parameters
    ----------
    configured:
        `AHPExtension.plugins`: `module:register`, one each.
    without:
        `AHPExtension.without_plugins`: names of built-in and installed plugins that are left out.
    installed:
        Entry points to use instead of those of the installed packages.
    """
    log = log or logging.getLogger(__name__)
    places = dict(BUILT_IN)
    for point in sorted(
        entry_points(group=GROUP) if installed is None else installed, key=lambda one: one.name
    ):
        if point.name in places:
            log.error("The plugin “%s” (%s) is left out: the name is taken", point.name, point.value)
        else:
            places[point.name] = point.value
    for name in without:
        if places.pop(name, None) is None:
            log.error("There is no plugin “%s” to leave out. There are: %s", name, ", ".join(places))
    for place in configured:
        if place in places.values():
            log.info("The plugin %s is there already", place)
        else:
            places[place.partition(":")[0] if place.partition(":")[0] not in places else place] = place
    hosts = [PluginHost(name, host, log) for name in places]
    results = await asyncio.gather(*(_register(one, places[one.name]) for one in hosts))
    registered = [one for one, (well, _) in zip(hosts, results, strict=True) if well]
    endings = {one.name: end for one, (_, end) in zip(hosts, results, strict=True) if end is not None}
    return Plugins(registered, endings)


async def _register(host: PluginHost, place: str) -> tuple[bool, Callable[[], Any] | None]:
    """Whether it went well, and what ends the plugin, if it said so."""
    try:
        async with asyncio.timeout(_PATIENCE):
            register = await asyncio.to_thread(_find, place)
            ending = await _called(register, host)
        if ending is not None and not callable(ending):
            raise TypeError(f"its register function returned a {type(ending).__name__}, not what ends it")
    except (Exception, SystemExit) as error:  # a module may be a script
        reason = f"it did not register in {_PATIENCE:.0f} s" if isinstance(error, TimeoutError) else error
        host.log.error("The plugin “%s” (%s) is left out: %s", host.name, place, reason, exc_info=error)
        await host.unregister()
        return False, None
    return True, ending


def _find(place: str) -> Callable[..., Any]:
    module, _, name = place.partition(":")
    if not module or not name:
        raise ValueError(f"{place!r} is not of the form module:function")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{place} is a {type(found).__name__}, not a function")
    return found  # type: ignore[no-any-return]


async def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    result = function(*arguments)
    return await result if inspect.isawaitable(result) else result
