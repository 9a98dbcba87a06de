"""What a command that shows the store reads of the configuration: the same values and complaints as the whole check."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from tesched_daemon.config import Config, load
from tesched_daemon.config_errors import ConfigError
from tesched_daemon.shown_config import NOT_READ, ShownConfig, load_shown


def _file(folder: Path, text: str, drop_in: str = "") -> Path:
    path = folder / "tesched.toml"
    path.write_text(text)
    (folder / "conf.d").mkdir()
    (folder / "conf.d" / "a.toml").write_text(drop_in)
    return path


def test_every_table_is_read_or_known_as_one_that_is_not() -> None:
    read = {field.name: field.type for field in fields(ShownConfig)}
    every = {field.name: field.type for field in fields(Config)}
    assert read.items() <= every.items()
    assert every.keys() - read.keys() == NOT_READ


@pytest.mark.parametrize(
    ("text", "drop_in"),
    [
        ("", ""),
        ("[run_times]\nlearn = false", ""),
        ("[store]\nurl = 'sqlite:////x'", "[guard]\ncool_down_s = 3\nte.max_running_per_user = 2"),
        ("mode = 'enforce'\n[guard]\nlever = 'plugin'\n[policy]\nte = 'patient'", "[store]\nurl = 'sqlite:////y'"),
    ],
)
def test_the_tables_are_those_of_the_whole_configuration(tmp_path: Path, text: str, drop_in: str) -> None:
    path = _file(tmp_path, text, drop_in)
    whole = load(path)
    assert load_shown(path) == ShownConfig(store=whole.store, guard=whole.guard, run_times=whole.run_times)


@pytest.mark.parametrize(
    ("text", "drop_in"),
    [
        ("[gaurd]\ncool_down_s = 3", ""),
        ("[guard]\ncool_down = 3", ""),
        ("[guard]\ncool_down_s = 3", "[guard]\ncool_down_s = -1"),
        ("[guard.bound]\nslowdown = 'high'\n[loop]\npoll_interval = 1", ""),
        ("[store]\nurl = 'mysql://x/y'", "mod = 3"),
        ("store = 3", ""),
        ("guard = [1]", ""),
        ("mode = ", ""),
    ],
)
def test_what_is_wrong_with_them_is_said_in_the_same_words(tmp_path: Path, text: str, drop_in: str) -> None:
    path = _file(tmp_path, text, drop_in)
    with pytest.raises(ConfigError) as whole:
        load(path)
    with pytest.raises(ConfigError) as shown:
        load_shown(path)
    assert str(shown.value) == str(whole.value)


def test_a_table_that_is_not_read_may_be_wrong(tmp_path: Path) -> None:
    path = _file(tmp_path, "[policy]\nte = 'nosuch'\n[loop]\npoll_interval_s = -1\n[guard]\ncool_down_s = 3")
    with pytest.raises(ConfigError):
        load(path)
    assert load_shown(path).guard.cool_down_s == 3
