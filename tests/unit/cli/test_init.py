"""The configuration that `tesched init` writes: its keys, and what it says of slurm.conf and of odd folders."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from tesched_cli import init as made_by
from tesched_cli.init import InitError, slurm_conf, starter
from tesched_core.model.snapshot import JobClass
from tesched_daemon.config import Config, leaves, load_files, parse
from tesched_daemon.settings import Mode

FOLDER = Path("/home/alice/tesched")
#: the keys that it names
KEYS = {
    "mode",
    "store.url",
    "slurm.conf",
    "slurm.marks",
    "slurm.admission",
    "loop.poll_interval_s",
    "loop.socket",
    "guard.max_preemptions_per_job",
    "guard.max_lost_runs_per_job",
    "guard.max_preemptions_per_hour",
    "guard.protected_users",
    "classes.default_grace_period_s",
    "classes.rules",
}
#: those whose values are this folder's, or an example
OWN = {"store.url", "slurm.conf", "slurm.marks", "slurm.admission", "loop.socket", "classes.rules"}


def test_it_has_the_keys_that_matter_which_exist_and_the_others_values_are_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "tesched.toml"
    path.write_text(starter(FOLDER, "/etc/slurm/slurm.conf"))
    # An unknown key would be an error here.
    loaded = load_files(path)
    assert set(loaded.tree.origins) == KEYS
    defaults = dict(leaves(Config()))
    assert {key for key, value in leaves(loaded.config) if value != defaults[key]} == OWN
    assert loaded.config.mode is Mode.SHADOW
    assert loaded.config.store.url == "sqlite:////home/alice/tesched/tesched.sqlite"
    assert loaded.config.slurm.conf == "/etc/slurm/slurm.conf"
    assert loaded.config.loop.socket == "/home/alice/tesched/poke.sock"
    # A site's daemon may run beside: this one would remove its files.
    assert loaded.config.slurm.marks == "/home/alice/tesched/marks"
    assert loaded.config.slurm.admission == "/home/alice/tesched/admission"


def test_its_rule_makes_jobs_trial_and_error() -> None:
    (rule,) = parse(starter(FOLDER, ""), "x").classes.rules
    assert rule.job_class is JobClass.TE
    assert (rule.match.max_time_limit_s, rule.match.max_nodes, rule.match.max_gpus) == (1800, 1, 2)


def test_each_key_has_a_comment_above_it() -> None:
    lines = starter(FOLDER, "").splitlines()
    for number, line in enumerate(lines):
        if " = " in line and not line.startswith(("#", "job_class", "match", "admission")):
            assert lines[number - 1].startswith(("#", "[[")), line


@pytest.mark.parametrize("name", ['a "b"', "a\\b", "ü", "a # b", "{x}", "%20"])
def test_an_odd_folder_is_named_as_it_is(name: str) -> None:
    config = parse(starter(FOLDER / name, ""), "x")
    assert tomllib.loads(starter(FOLDER / name, ""))["loop"]["socket"] == f"/home/alice/tesched/{name}/poke.sock"
    assert config.store.url == f"sqlite:////home/alice/tesched/{name}/tesched.sqlite"


def test_a_folder_with_a_name_too_long_for_a_socket_has_none() -> None:
    longest = Path("/" + "x" * (107 - len("//poke.sock")))
    assert parse(starter(longest, ""), "x").loop.socket == f"{longest}/poke.sock"
    assert parse(starter(Path(f"{longest}x"), ""), "x").loop.socket == ""


def test_a_folder_with_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(InitError, match="no UTF-8"):
        starter(Path("/home/\udcff"), "")


def test_a_slurm_conf_with_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    odd = Path(f"{tmp_path}/\udcff")
    odd.write_text("")
    with pytest.raises(InitError, match=r"SLURM_CONF names .*udcff.*no UTF-8"):
        slurm_conf({"SLURM_CONF": str(odd)})


def test_a_usual_place_that_is_closed_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_file(path: Path) -> bool:
        if path.name == "closed":
            raise PermissionError(13, "Permission denied")
        return True

    monkeypatch.setattr(made_by, "_USUAL", ("/x/closed", "/x/open"))
    monkeypatch.setattr(Path, "is_file", is_file)
    assert slurm_conf({}) == "/x/open"


def test_slurm_conf_is_that_of_the_environment_else_that_of_the_first_usual_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named, first, second = (tmp_path / name for name in ("named", "first", "second"))
    monkeypatch.setattr(made_by, "_USUAL", (str(first), str(second)))
    assert slurm_conf({}) == ""
    second.write_text("")
    assert slurm_conf({"SLURM_CONF": ""}) == str(second)
    first.write_text("")
    assert slurm_conf({}) == str(first)
    with pytest.raises(InitError, match=f"SLURM_CONF names {named}, and there is no such file"):
        slurm_conf({"SLURM_CONF": str(named)})
    named.write_text("")
    assert slurm_conf({"SLURM_CONF": str(named)}) == str(named)
    monkeypatch.chdir(tmp_path)
    assert slurm_conf({"SLURM_CONF": "named"}) == str(named)
