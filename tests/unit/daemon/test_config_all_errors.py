"""All that is wrong with a configuration is named at once, and nothing that is right."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from tesched_cli.main import main
from tesched_daemon.config import parse
from tesched_daemon.config_errors import ConfigError, without

SEVERAL = """\
mode = "on"
[guard]
min_run_time_s = "long"
cool_down_s = -1
protected_users = ["root", 3]
[loop]
poll_interval_s = 0
backoff_max_s = 1
[policy]
te = "none"
[metrics]
listen = "/"
[[classes.rules]]
name = "a"
job_class = "te"
grace_period_s = 86401
[[classes.rules]]
name = "b"
job_class = "be"
notice_signal = "KILL"
"""
#: loop.backoff_max_s is compared with poll_interval_s, which is wrong itself
WRONG = [
    "mode",
    "guard.min_run_time_s",
    "guard.cool_down_s",
    "guard.protected_users[1]",
    "loop.poll_interval_s",
    "classes.rules[0].grace_period_s",
    "classes.rules[1].notice_signal",
    "metrics.listen",
]


def complaints(text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as error:
        parse(text, "x.toml")
    return error.value.every


def test_each_wrong_value_is_named_once_with_what_would_be_right() -> None:
    found = complaints(SEVERAL)
    assert sorted(one.split(": ")[1] for one in found) == sorted(WRONG)
    assert all(one.startswith("x.toml: ") and "must be" in one for one in found)


def test_each_unknown_key_is_named() -> None:
    assert [one.split(": ")[1] for one in complaints("mood = 1\n[guard]\ncool_down = 1\n[x]\n")] == [
        "mood",
        "guard.cool_down",
        "x",
    ]


def test_unknown_keys_and_bad_values_of_all_tables_are_named_in_one_go() -> None:
    found = complaints(f"mood = 1\n{SEVERAL}notice_signel = 'USR1'\n[x]\n[slurm]\ntimeout = 1\n")
    unknown = ["mood", "classes.rules[1].notice_signel", "x", "slurm.timeout"]
    assert [one.split(": ")[1] for one in found[: len(unknown)]] == unknown
    assert sorted(one.split(": ")[1] for one in found[len(unknown) :]) == sorted(WRONG)


def test_a_key_with_a_slip_in_it_is_not_said_to_be_missing_too() -> None:
    found = complaints("mode = 1\n[[classes.rules]]\nnmae = 'a'\njob_class = 'te'\n")
    assert [one.split(": ")[1] for one in found] == ["classes.rules[0].nmae", "mode"]


def test_a_file_that_is_no_toml_is_the_only_complaint_and_its_line_is_named() -> None:
    [one] = complaints("mood = 1\n[guard]\nmin_run_time_s = long\n")
    assert one.startswith("x.toml: not valid TOML: line 3 (min_run_time_s): ")


def test_what_no_daemon_can_run_on_is_named_in_one_go(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    text = '[reports]\nsocket = "{0}/no/reports"\n[metrics]\nlisten = "{0}/no/metrics"\n[slurm]\nmarks = "{0}/x.toml"\n'
    path.write_text(text.format(tmp_path))
    checked = CliRunner(env={"NO_COLOR": "1"}).invoke(main, ["config", "check", str(path)])
    lines = checked.stderr.splitlines()
    assert (checked.exit_code, [line.split(": ")[2] for line in lines]) == (
        2,
        ["slurm.marks", "metrics.listen", "reports.socket"],
    )


def test_of_many_complaints_the_first_are_named() -> None:
    assert len(complaints("".join(f"key{number} = 1\n" for number in range(500)))) == 20


def test_a_list_of_tables_without_a_key_is_named_once() -> None:
    found = complaints("mode = 1\n[[classes.rules]]\nname = 'a'\n[[classes.rules]]\njob_class = 'te'\n")
    assert [one.split(": ")[1] for one in found] == ["mode", "classes.rules[0]"]


def test_two_keys_that_do_not_go_together_are_one_complaint() -> None:
    [one] = complaints("[loop]\npoll_interval_s = 60\nbackoff_max_s = 30\n")
    assert "loop.backoff_max_s: must be between poll_interval_s and 3600 seconds" in one


def test_keys_of_the_same_name_in_two_tables_are_two_complaints() -> None:
    rules = "".join(f"[[classes.rules]]\nname = '{name}'\njob_class = 'be'\ngrace_period_s = -1\n" for name in "ab")
    found = complaints(f"[slurm]\ntimeout_s = -1\n[tell]\ntimeout_s = -1\n{rules}")
    assert sorted(one.split(": ")[1] for one in found) == [
        "classes.rules[0].grace_period_s",
        "classes.rules[1].grace_period_s",
        "slurm.timeout_s",
        "tell.timeout_s",
    ]


def test_a_word_in_a_complaint_that_is_a_key_of_another_table_hides_nothing() -> None:
    found = complaints('[idle]\nfile = "rel"\nstale_s = 0\n[tell]\ncommand = ["x"]\n[slurm]\nmarks = "x"\n')
    assert sorted(one.split(": ")[1] for one in found) == ["idle.file", "idle.stale_s", "slurm.marks", "tell.command"]


def test_the_check_has_a_line_for_each_and_other_commands_their_number(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(SEVERAL)
    run = CliRunner(env={"NO_COLOR": "1"})
    checked = run.invoke(main, ["config", "check", str(path)])
    lines = checked.stderr.splitlines()
    assert (checked.exit_code, checked.stdout, len(lines)) == (2, "", len(WRONG))
    assert all(line.startswith(f"Error: {path}: ") for line in lines)
    shown = run.invoke(main, ["config", "show", "--config", str(path)])
    assert shown.exit_code == 2
    assert shown.stderr == f"{lines[0]}; 7 more complaint(s), which `tesched config check` has\n"


@pytest.mark.parametrize(
    ("key", "left"),
    [
        ("a", {"b": {"c": [{"d": 1, "e": 2}]}}),
        ("b.c[0].d", {"a": 1, "b": {"c": [{"e": 2}]}}),
        ("b.c[0]", {"a": 1, "b": {}}),
        ("b.c", {"a": 1, "b": {}}),
        ("b.x", None),
        ("b.c[1].d", None),
        ("a.x", None),
        ("", None),
    ],
)
def test_a_key_is_taken_away(key: str, left: object) -> None:
    assert without({"a": 1, "b": {"c": [{"d": 1, "e": 2}]}}, key) == left
