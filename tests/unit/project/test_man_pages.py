"""The manual pages: what the program says of itself, in a form that man reads, and in the wheel."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tesched_cli.config import example_text
from tesched_cli.main import main
from tesched_cli.manual import pages, roff
from tesched_daemon.config import Config, leaves

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docs" / "man"
NAMES = ("tesched.1", "tesched.toml.5")


def groff(source: str, *options: str) -> str:
    """Return the page as man shows it on a wide terminal; a warning fails the test."""
    if shutil.which("groff") is None:
        pytest.fail("groff is missing: run 'sudo slurm_test_cluster/install-slurm.sh'")
    # -ww: every warning; -c and -P-c: no colours, overstriking for bold, which is then taken away.
    words = ("groff", "-man", "-ww", "-Tutf8", "-rLL=2000n", "-P-c", *options)
    done = subprocess.run(words, input=source, capture_output=True, text=True, check=True, encoding="utf-8")
    assert done.stderr == ""
    return re.sub(".\b", "", done.stdout)


def commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """Yield every command that acts, with all its words."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from commands(inner, f"{path} {name}")


@pytest.mark.parametrize("name", NAMES)
def test_the_pages_say_what_the_program_says_now(name: str) -> None:
    renew = "the commands or systemd/tesched.toml have changed: run '.venv/bin/python -m tesched_cli.manual docs/man'"
    assert (FOLDER / name).read_text() == pages(main, example_text())[name], renew


@pytest.mark.parametrize("name", NAMES)
def test_man_reads_a_page_without_a_warning(name: str) -> None:
    text = groff((FOLDER / name).read_text())
    assert text.splitlines()[0].startswith(f"{name[:-2].upper()}({name[-1]})")


def test_every_command_and_every_option_is_in_the_page() -> None:
    text = groff(pages(main, example_text())["tesched.1"])
    headings = list(re.finditer(r"^   (tesched .*)$", text, re.MULTILINE))
    parts = {
        heading[1]: text[heading.end() : following.start() if following else None]
        for heading, following in zip(headings, [*headings[1:], None], strict=True)
    }
    for path, command in commands(main, "tesched"):
        found = [part for heading, part in parts.items() if f"{heading} ".startswith(f"{path} ")]
        assert len(found) == 1, path
        said = re.sub(r"\s+", " ", found[0])
        assert re.sub(r"\s+", " ", command.help or "").replace("`", "").strip() in said, path
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.opts[0] in said, f"{path}: {parameter.opts}"
                assert (parameter.help or "").replace("`", "") in said, f"{path}: {parameter.opts}"


def test_every_key_of_the_configuration_is_in_the_page_with_its_default() -> None:
    text = groff(pages(main, example_text())["tesched.toml.5"])
    shown: dict[str, object] = {}
    table = ""
    for line in text.partition("KEYS\n")[2].splitlines():
        if heading := re.fullmatch(r"   \[([a-z_.]+)\]", line):
            table = f"{heading[1]}."
        elif key := re.fullmatch(r"       ([a-z0-9_]+) = (.+)", line):
            # The rules' example stands below, in a table of its own.
            shown.setdefault(f"{table}{key[1]}", tomllib.loads(f"value = {key[2]}")["value"])
    # Lists that are empty: some have no key, the others none that is a default.
    lists = {"classes.rules", "classes.notice_rules"}
    without = lists | {key for key, _ in leaves(Config()) if key.startswith("classes.user_word.within.")}
    expected = {
        key: list(value) if isinstance(value, tuple) else value for key, value in leaves(Config()) if key not in without
    }
    assert {key: shown.get(key) for key in expected} == expected


def test_no_character_of_a_help_text_is_lost_or_read_as_roffs_own() -> None:
    hard = ".TH \\fBx \\n(.x 'quoted' \"twice\" --long-option ~user ^caret a`tick …é"

    @click.command(help=hard, short_help="x")
    @click.option("--odd", help=hard, default=".'\\", show_default=True)
    def probe(odd: str) -> None: ...

    text = groff(pages(click.Group("tesched", commands={"probe": probe}), "# intro\n\nkey = 1\n")["tesched.1"])
    assert text.count(hard) == 2
    assert "[default: .'\\]" in text


def test_what_stands_between_backquotes_is_bold() -> None:
    assert roff("run `tesched -V` now") == "run \\fBtesched \\-V\\fP now"


def test_a_commands_comment_example_and_a_key_without_a_comment_of_its_own() -> None:
    example = (
        "# All of it.\n\n# First.\none = 1\ntwo = 2\n# Third.\nthree = 3\n\n[table]\n"
        '# Text of it.\n#\n# [[table.rows]]\n# name = "a"\n'
    )
    text = groff(pages(main, example)["tesched.toml.5"])
    body = text.partition("KEYS\n")[2].partition("FILES\n")[0]
    assert [line.strip() for line in body.splitlines() if line.strip()] == [
        "Above all tables",
        "one = 1",
        "two = 2",
        "First.",
        "three = 3",
        "Third.",
        "[table]",
        "[[table.rows]]",
        "Text of it.",
        "[[table.rows]]",
        'name = "a"',
    ]


def test_the_wheel_has_the_pages_where_man_searches() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    pages_in_wheel = {key: value for key, value in wheel["shared-data"].items() if value.startswith("share/man")}
    assert pages_in_wheel == {f"docs/man/{name}": f"share/man/man{name[-1]}/{name}" for name in NAMES}
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(NAMES)
