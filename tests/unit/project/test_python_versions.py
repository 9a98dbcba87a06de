"""Python's versions: what pyproject.toml takes is what the pages name and what the set-up checks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MAKE_VENV = ROOT / "slurm_test_cluster" / "make-venv.sh"
#: what the set-up ends with here, once it has found the interpreter good
GOES_ON = 7


def bounds() -> tuple[int, int]:
    """Return the first minor version of Python 3 that is taken, and the first that is not any more."""
    takes = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    found = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", takes)
    assert found, takes
    return int(found[1]), int(found[2])


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def set_up_with(minor: int, folder: Path) -> subprocess.CompletedProcess[str]:
    """Set up with an interpreter that says that it is this version."""
    claims = f"import sys; sys.version_info = (3, {minor}, 1); exec(sys.argv[1])"
    program(folder / "python3.x", f'exec {sys.executable} -c "{claims}" "$2"')
    program(folder / "uv", f"exit {GOES_ON}")
    environment = {**os.environ, "PATH": f"{folder}:/usr/bin:/bin", "PYTHON": str(folder / "python3.x")}
    return subprocess.run([MAKE_VENV, folder / "venv"], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("beside", [-1, 0])
def test_the_set_up_refuses_a_python_that_pyproject_does_not_take(tmp_path: Path, beside: int) -> None:
    first, end = bounds()
    done = set_up_with(first - 1 if beside else end, tmp_path)
    assert done.returncode == 2
    assert f"is missing or not Python 3.{first} to 3.{end - 1}; name another one" in done.stderr


def test_the_set_up_takes_the_first_and_the_last_python_of_pyproject(tmp_path: Path) -> None:
    first, end = bounds()
    ended = [set_up_with(minor, tmp_path).returncode for minor in (first, end - 1)]
    assert ended == [GOES_ON, GOES_ON]


@pytest.mark.parametrize("page", ["README.md", "docs/howto/installation.md"])
def test_the_pages_name_the_first_and_the_last_version(page: str) -> None:
    first, end = bounds()
    assert f"Python 3.{first} to 3.{end - 1}" in (ROOT / page).read_text()
