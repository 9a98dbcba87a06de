r"""Text that users, sites and Slurm choose is shown unchanged by every command: no markup, no control, no new line."""

from __future__ import annotations

import ast
import json
import re
import time
from pathlib import Path

import click
import pytest
from rich.cells import cell_len
from rich.text import Text
from tesched_cli import common
from tesched_cli.main import main
from tesched_core.model.visible import shortened
from tesched_daemon.doctor.finding import fail, warn

from tests.users_text import COMMANDS, configuration, fill, tesched

ROOT = Path(__file__).parents[2]
#: by what it tries: the text, and how it is shown
HOSTILE = {
    "a closing tag of markup": ("[/x]", "[/x]"),
    "markup": ("[red]x[/red]", "[red]x[/red]"),
    "a link": ("[link=http://x]y[/link]", "[link=http://x]y[/link]"),
    "an emoji's code": (":warning:", ":warning:"),
    "escapes": ("\x1b[2J\x1b]0;x\x07", r"\x1b[2J\x1b]0;x\x07"),
    "C1": ("\x9b31mx", r"\x9b31mx"),
    "another line": ("x\nTROUBLE", r"x\nTROUBLE"),
    "the line's begin": ("x\rwell", r"x\rwell"),
    "a tab": ("x\ty", r"x\ty"),
    "bidi": ("\u202ex\u2066y", r"\u202ex\u2066y"),
    "zero width": ("ro\u200bot", r"ro\u200bot"),
    "a line separator": ("x\u2028y", r"x\u2028y"),
    "a leading dash": ("--help", "--help"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    configuration(tmp_path)
    return tmp_path


@pytest.mark.parametrize("what", HOSTILE)
def test_every_command_shows_it_and_no_more(folder: Path, what: str) -> None:
    text, shown = HOSTILE[what]
    fill(folder, text)
    for argv in COMMANDS:
        answer = tesched(folder, *argv, columns=400)
        assert answer.exit_code in {0, 1}, (argv, answer.output)
        assert shown in answer.output, (argv, answer.output)
        assert answer.output.replace("\n", "").isprintable(), argv
    seen = json.loads(tesched(folder, "jobs", "--json").output)["jobs"]
    assert {job["name"] for job in seen} == {text}, "JSON is data: nothing is escaped but by JSON itself"
    assert tesched(folder, "jobs", "--json").output.isascii()


def test_every_command_shows_a_question_mark_for_what_the_terminals_encoding_lacks(folder: Path) -> None:
    fill(folder, "né λ €")
    for argv in (*COMMANDS, ("pause", "--reason", "né λ €")):
        answer = tesched(folder, *argv, columns=400, charset="iso8859-1")
        assert answer.exit_code in {0, 1}, (argv, answer.output)
        assert "né ? ?" in answer.stdout, (argv, answer.stdout)


@pytest.mark.parametrize("what", HOSTILE)
def test_the_page_shows_it_and_no_more(folder: Path, what: str) -> None:
    text, shown = HOSTILE[what]
    fill(folder, f"<img src=x>{text}")
    assert tesched(folder, "status", "--html", str(folder / "page.html")).exit_code in {0, 1}
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert f"&lt;img src=x&gt;{shown}" in page
    assert "<img" not in page
    assert page.replace("\n", "").isprintable()


def test_records_that_could_not_be_read_are_named_by_status_and_its_page(folder: Path) -> None:
    fill(folder, "ada\n[/x]<b>")
    shown = tesched(folder, "status", columns=200).output
    assert "3 record(s) could not be read whole" in shown
    assert r"job 5 of ada\n[/x]<b>: ada\n[/x]<b>" in shown
    tesched(folder, "status", "--html", str(folder / "page.html"))
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert "3 record(s) could not be read whole" in page
    assert r"job 5 of ada\n[/x]&lt;b&gt;: ada\n[/x]&lt;b&gt;" in page


def test_why_slurm_cannot_be_seen_is_shown_by_status(folder: Path) -> None:
    fill(folder, "x\x1b[2J\nwell: [/x]", failed=True)
    assert r"x\x1b[2J\nwell: [/x]" in tesched(folder, "status").output


def test_a_coloured_terminal_gets_our_colours_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(folder, "\x1b[5mx\x1b[0m")
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = tesched(folder, "status", NO_COLOR="", FORCE_COLOR="1", TERM="xterm-256color").output
    assert "\x1b[" in shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert plain.replace("\n", "").isprintable()
    assert "\x1b[5m" not in shown


@pytest.mark.parametrize("columns", [80, 120, 200])
@pytest.mark.parametrize("text", ["x" * 255, "学" * 255, "[b]" * 85, "\x1b" * 255, "a" + "\u0301" * 254])
def test_a_long_name_keeps_its_line_within_the_terminal(folder: Path, text: str, columns: int) -> None:
    fill(folder, text)
    for argv in (("jobs",), ("throughputs", "list")):
        lines = tesched(folder, *argv, columns=columns).output.splitlines()
        assert max(map(cell_len, lines)) <= columns
    # Three jobs and their head; a narrow terminal folds what does not fit.
    lines = tesched(folder, "jobs", columns=600).output.splitlines()
    assert len(lines) == 4
    assert max(map(cell_len, lines)) < 500


def test_the_reason_of_a_pause_is_shown_on_one_line(folder: Path) -> None:
    answer = tesched(folder, "pause", "--reason", "x\x1b[2J\n[/x]")
    assert answer.stdout.endswith("x\\x1b[2J\\n[/x]\n")


@pytest.mark.parametrize(
    "argv", [("explain", "\x1b[2J\n7"), ("jobs", "-t", "\x1bPD"), ("jobs", "--\x1b[2J"), ("\x1b[2J",)]
)
def test_an_error_quotes_it_visibly(folder: Path, argv: tuple[str, ...]) -> None:
    answer = tesched(folder, *argv)
    assert answer.exit_code != 0
    assert r"\x1b" in answer.output
    assert answer.output.replace("\n", "").isprintable()


def test_a_file_with_hostile_names_is_refused_visibly(folder: Path) -> None:
    path = folder / "speeds.csv"
    path.write_text("workload,accelerator,steps_per_s\n\x1b[2J,v100,1\n\x1b[2J,v100,2\n")
    answer = tesched(folder, "throughputs", "import", str(path))
    assert answer.exit_code == 2
    assert answer.output.replace("\n", "").isprintable()


def test_doctor_prints_findings_that_quote_users_visibly(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [warn("names", "user x\n\x1b[2J[/x]", "rename\u202e it"), fail("[/b]", "[red]", "")]
    monkeypatch.setattr("tesched_cli.doctor.examine", lambda _path: iter(found))
    shown = tesched(folder, "doctor").output
    assert r"user x\n\x1b[2J[/x]" in shown
    assert "\n" + " " * 20 + r"to do: rename\u202e it" + "\n" in shown
    assert "[red]" in shown
    assert shown.replace("\n", "").isprintable()


def test_forged_node_names_are_neither_expanded_nor_passed_to_a_shell(folder: Path) -> None:
    marker = folder / "ran"
    began = time.monotonic()
    for text in (f"@x'$(touch {marker})'", "n[1-99999999]", "n[1-", "a!b", "@*"):
        assert common.hostlist([text, "n2"]) == shortened(f"{text},n2", common.LONGEST_TEXT)
    assert not marker.exists()
    assert time.monotonic() - began < 30
    assert common.hostlist(["n1", "n3", "n2", "gpu-a.site_7"]) == "gpu-a.site_7,n[1-3]"


def test_a_text_object_is_shown_like_a_string(capsys: pytest.CaptureFixture[str]) -> None:
    common.console().print(Text.assemble(("a\nb", "red"), "\x1b[2J"))
    assert capsys.readouterr().out == "a\\nb\\x1b[2J\n"


def test_a_name_that_a_user_chose_is_bounded_in_a_table_and_no_other_text(capsys: pytest.CaptureFixture[str]) -> None:
    shown = common.table("NAME~", "WHY")
    shown.add_row("n" * 100, "w" * 30)
    common.console().print(shown)
    out = capsys.readouterr().out
    assert "n" * (common.LONGEST_CELL - 2) + ".. " in out
    assert "n" * common.LONGEST_CELL not in out
    assert "w" * 30 in out


def test_nothing_prints_but_what_the_commands_share() -> None:
    """A command that printed by itself would be outside of the one place where text is escaped."""
    for path in sorted((ROOT / "cli" / "tesched_cli").glob("*.py")):
        # JSON escapes all that is not ASCII by itself.
        if path.name in {"common.py", "json_output.py"}:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in {"print", "click.echo", "click.secho", "Console", "Table", "sys.stdout.write"}, (
                    f"{path.name}:{node.lineno}: {called}"
                )


def test_help_is_of_ours_alone() -> None:
    # Manual pages are made from it.
    for name in main.list_commands(click.Context(main)):
        command = main.get_command(click.Context(main), name)
        assert command is not None
        text = command.get_help(click.Context(command, info_name=name))
        assert text.replace("\n", "").isprintable(), name
