"""Every command refuses a configuration that it cannot use: exit status 2, and one error that names the file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tesched_cli.main import main

#: what a command needs besides
WORDS = {"explain": ["1"], "ask": ["--wrap=true"], "check": ["--wrap=true"], "learn": ["--forget"]}


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of each command that takes --config, or as `config check` the file by its name."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from commands(command.get_command(context, name) or command, (*path, name))
    elif any("--config" in parameter.opts for parameter in command.params) or path == ("config", "check"):
        yield path


@pytest.mark.parametrize("command", [*commands(main)], ids=" ".join)
@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "no such file"), ("mod = 3\n", "mod: unknown key"), ("mode = \n", "not valid TOML: line 1")],
    ids=["missing", "unknown key", "no TOML"],
)
def test_a_bad_configuration_ends_each_command_with_status_2(
    tmp_path: Path, command: tuple[str, ...], content: str | None, why: str
) -> None:
    path = tmp_path / "site.toml"
    if content is not None:
        path.write_text(content)
    named = [str(path)] if command == ("config", "check") else ["--config", str(path)]
    speeds = tmp_path / "speeds.csv"
    speeds.write_text("workload,accelerator,steps_per_s\nbert,a100,3\n")
    words = [str(speeds)] if command == ("throughputs", "import") else WORDS.get(" ".join(command), [])
    ended = CliRunner(env={"NO_COLOR": "1", "COLUMNS": "300"}).invoke(main, [*command, *named, *words])
    assert ended.exit_code == 2, ended.output
    assert "Traceback" not in ended.output
    assert f"{path}: " in ended.output
    assert why in ended.output


def test_all_commands_are_tried() -> None:
    found = {" ".join(one) for one in commands(main)}
    assert {"status", "doctor", "daemon", "config show", "config check", "ask", "undo", "whatif"} <= found
