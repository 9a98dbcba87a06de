"""Choice of the client, and what is said where the configured one cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_slurm.clients import NoPyslurmError, choose
from tesched_slurm.run_command import Commands
from tesched_testcluster.harness.daemon_process import run_tesched
from tesched_testcluster.harness.slurm_clients import CLIENTS
from tesched_testcluster.local import LocalCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]


def commands(cluster: LocalCluster) -> Commands:
    return Commands(slurm_conf=str(cluster.slurm_conf))


def fake_pyslurm(folder: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "pyslurm.py").write_text(source)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))


def test_commands_are_taken_where_they_are_requested(cluster: LocalCluster) -> None:
    client = choose(ClientChoice.COMMANDS, commands(cluster))
    release = cluster.run("scontrol", "--version").stdout.split()[-1]
    assert (client.name, client.why) == (f"commands (slurm {release})", "it was chosen")


def test_auto_takes_pyslurm_where_it_fits(cluster: LocalCluster) -> None:
    client = choose(ClientChoice.AUTO, commands(cluster))
    if ClientChoice.PYSLURM in CLIENTS:
        assert client.name.startswith("pyslurm 26.5.")
        assert "(slurm 26.05." in client.name
    else:
        assert client.name.startswith("commands (slurm ")
        assert client.why == "pyslurm cannot be used: it is not installed"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ('__version__ = "17.11.0"', "it is 17.11.0, made for another release than Slurm "),
        ("import os; os.abort()", "it does not start (pyslurm's process ended (signal 6)"),
        ("raise ImportError('libslurmfull.so: cannot open')", "libslurmfull.so: cannot open"),
    ],
)
def test_a_pyslurm_that_does_not_fit_is_not_used(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, why: str
) -> None:
    fake_pyslurm(tmp_path, source, monkeypatch)
    client = choose(ClientChoice.AUTO, commands(cluster))
    assert client.name.startswith("commands ")
    assert why in client.why
    with pytest.raises(NoPyslurmError, match="use auto or commands") as caught:
        choose(ClientChoice.PYSLURM, commands(cluster))
    assert why in str(caught.value)


def test_a_daemon_that_shall_use_a_pyslurm_that_does_not_fit_ends_with_status_2(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_pyslurm(tmp_path, '__version__ = "17.11.0"', monkeypatch)
    config = tmp_path / "tesched.toml"
    store = f"sqlite:///{tmp_path}/tesched.sqlite"
    config.write_text(f'[store]\nurl = "{store}"\n[slurm]\nclient = "pyslurm"\nconf = "{cluster.slurm_conf}"\n')
    done = run_tesched("daemon", "--config", str(config), "--once")
    assert done.returncode == 2
    assert "slurm.client: pyslurm cannot be used: it is 17.11.0" in done.stderr
    assert "Traceback" not in done.stderr
