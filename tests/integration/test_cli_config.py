"""`tesched config`: the values in force and where they come from; unusable ones, reported in one line with status 2."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result
from tesched_cli.main import main


def tesched(*argv: str) -> Result:
    """Run `tesched argv…` in this process."""
    return CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(main, list(argv))


def test_show_prints_each_value_and_the_file_that_gave_it(tmp_path: Path) -> None:
    path, more = tmp_path / "tesched.toml", tmp_path / "conf.d" / "50-site.toml"
    more.parent.mkdir()
    path.write_text("mode = 'observe'\n[guard]\ncool_down_s = 1\n")
    more.write_text("[guard]\ncool_down_s = 2\n[[classes.rules]]\nname = '[red]'\njob_class = 'te'\n")
    lines = tesched("config", "show", "--config", str(path)).output.splitlines()
    rows = {words[0]: words[1:] for line in lines if (words := line.split())}
    assert rows["mode"] == ['"observe"', str(path)]
    assert rows["guard.cool_down_s"] == ["2.0", str(more)]
    assert rows["guard.retry_after_s"] == ["300.0", "default"]
    assert rows["classes.user_word.within.max_gpus"] == ["-", "default"]
    assert '[{ name = "[red]", job_class = "te" }]' in " ".join(rows["classes.rules"])

    data = json.loads(tesched("config", "show", "--json", "--config", str(path)).output)
    assert data["files"] == [str(path), str(more)]
    told = {each["key"]: (each["value"], each["file"]) for each in data["settings"]}
    assert told["guard.cool_down_s"] == (2.0, str(more))
    assert told["loop.poll_interval_s"] == (2.0, None)
    assert told["classes.rules"][0][0]["name"] == "[red]"


def test_show_keeps_the_stores_password_to_itself(tmp_path: Path) -> None:
    path = tmp_path / "tesched.toml"
    path.write_text("[store]\nurl = 'postgresql://me:geheim@db/x?password=geheim&sslmode=require'\n")
    for form in ((), ("--json",)):
        said = tesched("config", "show", "--config", str(path), *form)
        assert said.exit_code == 0
        assert "geheim" not in said.output
        assert "postgresql://me:***@db/x?sslmode=require" in said.output


def test_check_counts_the_files_of_conf_d(tmp_path: Path) -> None:
    path = tmp_path / "tesched.toml"
    path.write_text("")
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "a.toml").write_text("[policy]\nte = 'patient'\n")
    said = tesched("config", "check", str(path))
    assert (said.exit_code, said.output) == (
        0,
        f"{path} with 1 file(s) of {tmp_path / 'conf.d'}: good (mode shadow, policy patient, 0 rule(s))\n",
    )


def test_an_empty_name_of_a_configuration_is_no_folder() -> None:
    for argv in (("config", "check", ""), ("status", "--config", "")):
        said = tesched(*argv)
        assert (said.exit_code, "'' names no file" in said.output) == (2, True), said.output
