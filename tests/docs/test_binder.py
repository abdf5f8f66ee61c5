"""What repo2docker makes of `binder/`, by its own buildpacks. The image itself needs Docker, and is not built here."""

from __future__ import annotations

import re
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from repo2docker.app import Repo2Docker  # type: ignore[import-untyped]
from repo2docker.buildpacks import BuildPack, PythonBuildPack  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[2]
BINDER = ROOT / "binder"


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> BuildPack:
    """The buildpack that repo2docker picks for this repository: the first that says it is for it."""
    monkeypatch.chdir(ROOT)
    app = Repo2Docker()
    packs = [pack(base_image=app.base_image) for pack in app.buildpacks]
    pack: BuildPack = next(pack for pack in packs if pack.detect())
    pack.platform = "linux/amd64"
    return pack


def test_repo2docker_builds_it_as_a_python_project(chosen: BuildPack) -> None:
    assert type(chosen) is PythonBuildPack
    assert chosen.binder_dir == "binder"
    assert chosen.python_version == (BINDER / "runtime.txt").read_text().strip().removeprefix("python-")
    assert not chosen.separate_kernel_env, "the server and its kernels are one environment"


def test_the_package_is_installed_with_what_a_chat_without_a_key_needs(chosen: BuildPack) -> None:
    dockerfile = chosen.render({})
    whole_repository = dockerfile.index("COPY --chown=1000:1000 src/ ${REPO_DIR}")
    installs = dockerfile.index('install --no-cache-dir -r "binder/requirements.txt"')
    assert whole_repository < installs, "pip finds `.` only behind the copy"
    assert installs < dockerfile.index("RUN ./binder/postBuild")
    lines = [line for line in (BINDER / "requirements.txt").read_text().splitlines() if line[:1] != "#"]
    (line,) = lines
    assert Requirement(f"jupyter-ahp{line.removeprefix('.')}").extras == {"lab", "assistant", "local"}


def test_its_Node_can_build_the_extension(chosen: BuildPack) -> None:
    (lock,) = [name for name, place in chosen.get_build_script_files().items() if place.endswith(".lock")]
    packages = files("repo2docker.buildpacks").joinpath(lock).read_text("utf-8")
    found = re.search(r"/nodejs-([\d.]+)-", packages)
    assert found is not None, "the environment that repo2docker begins with has Node in it"
    node = Version(found[1])
    assert Version("20.19") <= node < Version("21") or node >= Version("22.12")


def test_postBuild_can_be_run_and_leaves_the_notebook_that_the_link_opens(tmp_path: Path) -> None:
    script = BINDER / "postBuild"
    assert script.stat().st_mode & 0o111, "repo2docker makes it executable, a reader may not"
    # With a `jupyter-ahp` that notes what it was asked: the model itself is fetched in tests/agents.
    tool = tmp_path / "bin" / "jupyter-ahp"
    tool.parent.mkdir()
    tool.write_text('#!/bin/sh\necho "$@" > asked\n')
    tool.chmod(0o755)
    notebook = tmp_path / "jupyter_ahp" / "notebook" / "welcome.ipynb"
    notebook.parent.mkdir(parents=True)
    notebook.write_bytes((ROOT / "jupyter_ahp" / "notebook" / "welcome.ipynb").read_bytes())
    subprocess.run([script], cwd=tmp_path, env={"PATH": f"{tool.parent}:/usr/bin:/bin"}, check=True)
    assert (tmp_path / "asked").read_text() == "local-model\n"
    assert (tmp_path / "welcome.ipynb").read_bytes() == notebook.read_bytes()
