"""AI agents where data work happens: an Agent Host Protocol host inside Jupyter Server, with its faces."""

from __future__ import annotations

from typing import Any

from ._version import __version__

__all__ = ["__version__"]


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    """Asked by Jupyter Server: where the extension is."""
    from .app import AHPExtension

    return [{"module": "jupyter_ahp.app", "app": AHPExtension}]


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """Asked by `jupyter-builder develop`: where the built labextension is."""
    return [{"src": "labextension", "dest": "jupyter-ahp"}]
