"""The configuration: what it takes, and what it says of what it does not take."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_core.model.snapshot import JobClass
from tesched_daemon.config import Config, load, parse
from tesched_daemon.config_errors import ConfigError
from tesched_daemon.settings import Mode
from tesched_policies.baselines import AtRandom


def test_an_empty_file_is_the_defaults_and_touches_nothing() -> None:
    config = parse("", "x.toml")
    assert config == Config()
    assert config.mode is Mode.SHADOW


def test_every_section_reaches_its_part() -> None:
    config = parse(
        """
        mode = "enforce"
        [store]
        url = "postgresql+psycopg://db/tesched"
        [slurm]
        client = "commands"
        timeout_s = 5
        [loop]
        poll_interval_s = 1
        [policy]
        te = "rand"
        [policy.rand]
        seed = 7
        [guard]
        max_preemptions_per_job = 3
        protected_users = ["root", "svc-*"]
        [classes]
        default_class = "exempt"
        [[classes.rules]]
        name = "debug"
        job_class = "te"
        grace_period_s = 5
        match = { partitions = ["debug"], max_time_limit_s = 3600 }
        [classes.user_word]
        may_say_te = true
        within = { max_gpus = 1 }
        """,
        "x.toml",
    )
    assert config.mode is Mode.ENFORCE
    assert config.store.url == "postgresql+psycopg://db/tesched"
    assert config.slurm.timeout_s == 5.0
    assert config.policy.entries()[0].policy == AtRandom(seed=7)
    assert config.guard.protected_users == ("root", "svc-*")
    assert config.classes.default_class is JobClass.EXEMPT
    assert config.classes.rules[0].match.max_time_limit_s == 3600
    assert config.classes.user_word.within.max_gpus == 1


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", "must be the absolute path of a file"),
        ("/", "must be the absolute path of a file"),
        ("/run/tesched/", "must be the absolute path of a file"),
        ("/run/x/../y", "must be a path in its plainest form: /run/y"),
        ("/run//tesched/x", "must be a path in its plainest form: /run/tesched/x"),
        ("//run/tesched/x", "must be a path in its plainest form: /run/tesched/x"),
        ("/run/..", "must be the absolute path of a file"),
        ("admission", "must be the absolute path of a file"),
        ("/run/poke", "must be another file than loop.socket"),
        ("/run/reports", "must be another file than reports.socket"),
        ("/run/munge", "must be another file than reports.munge_socket"),
        ("/var/store", "must be another file than store.url"),
        ("/var/store-wal", "must be another file than store.url"),
        ("/etc/slurm.conf", "must be another file than slurm.conf"),
        ("/usr/bin/tell", "must be another file than tell.command"),
    ],
)
@pytest.mark.parametrize("key", ["marks", "admission"])
def test_what_the_daemon_writes_is_a_file_of_its_own(key: str, value: str, why: str) -> None:
    text = (
        f'[slurm]\nconf = "/etc/slurm.conf"\n{key} = "{value}"\n[loop]\nsocket = "/run/poke"\n'
        '[reports]\nsocket = "/run/reports"\nmunge_socket = "/run/munge"\n'
        '[store]\nurl = "sqlite:////var/store"\n[tell]\ncommand = ["/usr/bin/tell"]\n'
    )
    right = ", not " if "plainest" in why else rf', .*such as "/run/tesched/{key}"'
    with pytest.raises(ConfigError, match=rf"x\.toml: slurm\.{key}: {why}{right}"):
        parse(text, "x.toml")


def test_marks_and_admission_are_two_files() -> None:
    with pytest.raises(ConfigError, match=r"x\.toml: slurm\.admission: must be another file than marks"):
        parse('[slurm]\nmarks = "/run/tesched/admission"\n', "x.toml")


def test_a_path_with_two_slashes_at_its_beginning_is_known_too() -> None:
    with pytest.raises(ConfigError, match=r"slurm\.marks: must be another file than loop\.socket"):
        parse('[slurm]\nmarks = "/run/x"\n[loop]\nsocket = "//run/x"\n', "x.toml")


def test_a_missing_or_unreadable_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: no such file"):
        load(tmp_path / "none.toml")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"binary\.toml: cannot be read"):
        load(binary)
