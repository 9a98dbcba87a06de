"""Keys that ask for a package that tesched is installed without: refused where a daemon needs it, not elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tesched_cli.main import main
from tesched_daemon.config_errors import ConfigError
from tesched_daemon.doctor.doctor import examine
from tesched_daemon.doctor.finding import Severity
from tesched_daemon.wiring import run
from tesched_db import migrate

from tests.missing_packages import hide
from tests.unit.daemon.test_config_reload import BASE, Site

GAVEL = """policy.be: "gavel" needs SciPy, which is not installed; pip install '.[gavel]'"""
POSTGRESQL = """store.url: "postgresql://…" needs psycopg, which is not installed; pip install '.[postgresql]'"""
MISSING = [
    ('policy.be = "gavel"\n', GAVEL),
    ('[[policy.be]]\nname = "slaq"\npartitions = ["cpu"]\n[[policy.be]]\nname = "gavel"\n', GAVEL),
    ('store.url = "postgresql://tesched:secret@db/tesched"\n', POSTGRESQL),
]


@pytest.fixture(autouse=True)
def slim(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "scipy", "psycopg", "matplotlib", "submitit")


def tesched(*argv: str | Path) -> Result:
    return CliRunner(env={"NO_COLOR": "1", "COLUMNS": "200"}).invoke(main, [str(word) for word in argv])


@pytest.mark.parametrize(("text", "why"), MISSING)
def test_check_doctor_and_the_daemons_start_name_file_key_and_extra(tmp_path: Path, text: str, why: str) -> None:
    config = tmp_path / "tesched.toml"
    config.write_text(text)
    said = tesched("config", "check", config)
    assert (said.exit_code, said.stdout, said.stderr) == (2, "", f"Error: {config}: {why}\n")
    with pytest.raises(ConfigError, match=re.escape(f"{config}: {why}")):
        run(config, once=True)
    finding = next(one for one in examine(config) if one.level is Severity.FAIL)
    assert f"{finding.text}; {finding.advice}" == f"{config}: {why}"


def test_the_file_that_says_so_is_named(tmp_path: Path) -> None:
    config, part = tmp_path / "tesched.toml", tmp_path / "conf.d" / "50-gavel.toml"
    config.touch()
    part.parent.mkdir()
    part.write_text('policy.be = "gavel"\n')
    assert tesched("config", "check", config).stderr == f"Error: {part}: {GAVEL}\n"


def test_a_reload_that_asks_for_it_leaves_the_daemon_as_it_was(tmp_path: Path) -> None:
    site = Site(path=tmp_path / "tesched.toml")
    before = site.loop.policies
    said = site.reload(BASE + '[policy]\nbe = "gavel"\n')
    assert said == f"the configuration is not reloaded: {site.path}: {GAVEL}"
    assert site.loop.policies == before
    assert site.loop.turn().trouble == ""
    assert site.reload(BASE + '[policy]\nbe = "fill"\n') == ""
    assert [entry.policy.name for entry in site.loop.policies] == ["fitgpp", "fill"]


def test_a_policys_table_alone_asks_for_nothing(tmp_path: Path) -> None:
    config = tmp_path / "tesched.toml"
    config.write_text("[policy.gavel]\nround_s = 300\n")
    assert tesched("config", "check", config).exit_code == 0


@pytest.mark.parametrize(
    ("argv", "status", "words"),
    [
        (("status",), 3, "no daemon has ever run on this store"),
        (("jobs",), 0, "JOBID"),
        (("orders",), 0, "no orders"),
        (("explain", "1"), 1, "tesched has never seen it"),
        (("config", "show"), 0, 'name = "gavel"'),
        (("undo", "--dry-run"), 2, "Slurm does not answer"),
    ],
)
def test_what_decides_nothing_needs_no_policys_package(
    tmp_path: Path, argv: tuple[str, ...], status: int, words: str
) -> None:
    url = f"sqlite:///{tmp_path}/store.sqlite"
    migrate.upgrade(url)
    config = tmp_path / "tesched.toml"
    config.write_text(f'store.url = "{url}"\npolicy.be = "gavel"\nslurm.timeout_s = 0.5\n')
    said = tesched(*argv, "--config", config)
    assert (said.exit_code, words in said.output) == (status, True), said.output


def test_a_command_says_what_the_store_needs(tmp_path: Path) -> None:
    config = tmp_path / "tesched.toml"
    config.write_text('store.url = "postgresql://tesched:secret@db/tesched"\n')
    said = tesched("status", "--config", config)
    assert said.exit_code == 2
    assert said.stderr == (
        "Error: a state store in PostgreSQL (store.url) needs psycopg, which is not installed; "
        "pip install '.[postgresql]'\n"
    )
