"""README's first screen shows what was recorded: the picture, the samples and the headline table come from runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()


def run(module: str, *argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"benchmarks.{module}", *argv]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_readme_is_short_and_shows_the_picture_the_commands_and_the_samples_first() -> None:
    assert len(README.splitlines()) <= 150
    parts = ("![", "](docs/demo.svg)", "make demo ", "$ tesched status", "$ tesched explain", "\n## ", "| Slurm alone")
    places = [README.index(part) for part in parts]
    assert places == sorted(places)


def test_the_samples_and_the_headline_table_are_those_of_the_records() -> None:
    said = run("first_screen", "--check")
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")


@pytest.mark.parametrize(("there", "instead"), [("mode     enforce", "mode     perfect"), ("| Slurm alone", "| Slurm")])
def test_what_no_record_holds_is_found_and_written_anew(there: str, instead: str, tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(README.replace(there, instead))
    said = run("first_screen", "--check", "--readme", str(readme))
    assert (said.returncode, "does not show what docs/demo.json" in said.stdout) == (1, True)
    assert run("first_screen", "--readme", str(readme)).returncode == 0
    assert readme.read_text() == README


def test_a_page_without_the_marks_is_refused(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("# tesched\n")
    said = run("first_screen", "--readme", str(readme))
    assert (said.returncode, readme.read_text()) == (2, "# tesched\n")
    assert "README.md: <!-- samples ... --> and <!-- end --> stand there 0 times; once is right" in said.stderr


def test_a_file_that_is_no_earlier_run_is_named(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text("{}")
    said = run("native", "--earlier", str(other), "--markdown")
    assert (said.returncode, said.stdout) == (2, "")
    assert "other.json: it is not what --json prints: " in said.stderr


def test_an_earlier_run_is_printed_as_it_was() -> None:
    earlier = ROOT / "docs" / "native.json"
    assert run("native", "--earlier", str(earlier), "--json").stdout == earlier.read_text()


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#]+)", README))))
def test_readme_links_to_what_is_there(target: str) -> None:
    assert target.startswith("https://") or (ROOT / target).exists()
