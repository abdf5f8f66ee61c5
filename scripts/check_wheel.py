"""Builds the wheel as `pip install` does in a fresh clone, and says whether it holds what it should.

Exits 1 if it does not. What is built in this tree already, for development perhaps, is left out of it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
NEEDED = [
    r"jupyter_ahp/app\.py",
    r"jupyter_ahp/notebook/static/widget\.js",
    r".*\.data/data/share/jupyter/labextensions/jupyter-ahp/package\.json",
    r".*\.data/data/share/jupyter/labextensions/jupyter-ahp/install\.json",
    r".*\.data/data/share/jupyter/labextensions/jupyter-ahp/static/remoteEntry\.[0-9a-f]+\.js",
    r".*\.data/data/share/jupyter/labextensions/jupyter-ahp/static/style\.js",
    r".*\.data/data/etc/jupyter/jupyter_server_config\.d/jupyter_ahp\.json",
    r"jupyter_ahp/agents/pi/extension\.ts",
    r".*\.dist-info/licenses/LICENSE",
]
UNWANTED = [r"(^|/)tests/", r"(^|/)node_modules/", r"\.map$", r"__pycache__"]
NOT_SOURCE = (
    ".git",
    ".venv",
    ".*_cache",
    ".hypothesis",
    "__pycache__",
    "node_modules",
    "lib",
    "*.tsbuildinfo",
    "dist",
)
LIMIT = 2_000_000
"""Bytes of a wheel that is still small to add to a JupyterLab."""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        source, wheels = Path(folder, "source"), Path(folder, "wheels")
        shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*NOT_SOURCE))
        for built in ("jupyter_ahp/labextension", "jupyter_ahp/notebook/static"):
            shutil.rmtree(source / built, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels)]
        subprocess.run([*pip, str(source)], check=True)
        (wheel,) = wheels.glob("*.whl")
        names = zipfile.ZipFile(wheel).namelist()
        size = wheel.stat().st_size
    wrong = [f"missing: {pattern}" for pattern in NEEDED if not any(re.fullmatch(pattern, n) for n in names)]
    wrong += [f"not wanted: {n}" for n in names if any(re.search(pattern, n) for pattern in UNWANTED)]
    if size > LIMIT:
        wrong.append(f"{size:,} bytes, over {LIMIT:,}")
    print(f"{wheel.name}: {size:,} bytes, {len(names)} files")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
