"""What `tesched doctor` says of the plugin preempt/tesched, and `tesched status` of what keeps Slurm from the marks."""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tesched_core.model.cluster import PluginSettings, SlurmSettings
from tesched_core.model.limits import Limits, YieldBy
from tesched_daemon.config import Config, SlurmConfig
from tesched_daemon.doctor import plugin
from tesched_daemon.doctor.finding import Severity
from tesched_daemon.doctor.plugin import examine
from tesched_daemon.plugin_file import FILE
from tesched_daemon.plugin_fit import misfits

FITS = PluginSettings(
    marks="/run/tesched/marks",
    owners=frozenset({"root", "slurm"}),
    mode="REQUEUE",
    te_qos=frozenset({"te"}),
)
SLURM = SlurmSettings(release="22.05.8", preempt_type="preempt/tesched", plugin=FITS)
PLUGIN = Config(guard=Limits(lever=YieldBy.PLUGIN))


def found(
    config: Config = PLUGIN,
    settings: SlurmSettings = SLURM,
    values: Mapping[str, str] | None = None,
    user: str = "root",
) -> list[tuple[Severity, str]]:
    return [(one.level, one.text) for one in examine(config, settings, values or {}, user)]


def with_plugin(**changes: object) -> SlurmSettings:
    return replace(SLURM, plugin=replace(FITS, **changes))  # type: ignore[arg-type]


def test_the_configurations_file_is_the_plugins_own() -> None:
    assert SlurmConfig().marks == PluginSettings().marks


def test_a_python_that_does_not_start_says_nothing_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / FILE).write_bytes(b"no library")
    python = tmp_path / "python"
    python.write_text(f"""#!/bin/sh
[ "$LD_LIBRARY_PATH" = /opt/python/lib ] || {{ echo "python: error while loading shared libraries" >&2; exit 127; }}
LD_LIBRARY_PATH= exec {sys.executable} "$@"
""")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    assert plugin._damage([str(tmp_path)]) == ""
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/python/lib")
    assert FILE in plugin._damage([str(tmp_path)]), "it is started with the variable that it needs"


def test_nothing_is_said_where_the_plugin_is_not_wanted() -> None:
    assert found(Config(), SlurmSettings()) == []


def test_what_fits_is_well() -> None:
    assert found() == [
        (Severity.OK, "slurmctld obeys the marks in /run/tesched/marks"),
        (Severity.OK, "TE jobs to slurmctld are those of QOS te"),
    ]


@pytest.mark.parametrize(
    ("settings", "user", "says"),
    [
        (SlurmSettings(preempt_type="preempt/none"), "root", "PreemptType is preempt/none"),
        (with_plugin(marks="/elsewhere"), "root", "slurmctld reads /elsewhere"),
        (SLURM, "tesched", "trusts marks of root, slurm alone, and tesched writes them"),
        (with_plugin(mode="OFF"), "root", "PreemptMode is OFF"),
    ],
)
def test_what_keeps_slurm_from_the_marks_is_a_fault(settings: SlurmSettings, user: str, says: str) -> None:
    levels = found(settings=settings, user=user)
    assert [level for level, text in levels if says in text] == [Severity.FAIL]
    assert "obeys the marks" not in str(levels)


def test_the_user_that_slurm_conf_names_is_trusted() -> None:
    owners = FITS.owners | {"tesched"}
    assert Severity.FAIL not in dict(found(settings=with_plugin(owners=owners), user="tesched"))


def test_what_makes_it_obey_less_is_a_warning() -> None:
    said = found(
        settings=with_plugin(te_qos=frozenset(), youngest_first=True), values={"PreemptExemptTime": "00:05:00"}
    )
    assert [level for level, _ in said].count(Severity.WARN) == 3


@pytest.mark.parametrize(("marks", "warnings"), [("/run/tesched/marks", 1), ("/shared/tesched/marks", 0)])
def test_marks_that_a_backup_slurmctld_cannot_see_are_a_warning(marks: str, warnings: int) -> None:
    settings = replace(with_plugin(marks=marks), controllers=("ctl1", "ctl2"))
    said = [level for level, text in found(settings=settings) if "backup slurmctld (ctl2) finds no marks" in text]
    assert said == [Severity.WARN] * warnings


@pytest.mark.parametrize(("counted", "level"), [("cpu,mem,gres/gpu", None), ("cpu,mem", Severity.WARN)])
def test_gpus_that_slurm_does_not_count_are_a_warning(counted: str, level: Severity | None) -> None:
    said = found(values={"GresTypes": "gpu,shard", "AccountingStorageTRES": counted})
    assert [one for one, text in said if "AccountingStorageTRES" in text] == ([level] if level else [])
    assert len(found(values={"GresTypes": "shard", "AccountingStorageTRES": "cpu"})) == 2


def test_a_plugin_without_its_lever_is_said_to_be_idle() -> None:
    ((level, text),) = found(Config())
    assert level is Severity.OK
    assert "guard.lever is requeue: nothing is marked" in text


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\0tesched-built-for=22.05.8\0", []),
        (b"\0tesched-built-for=22.05.7\0", ["was built for Slurm 22.05.7, and slurmctld is 22.05.8: no job is"]),
        (b"something else", []),
    ],
)
def test_the_release_that_it_was_built_for_is_compared(tmp_path: Path, content: bytes, says: list[str]) -> None:
    (tmp_path / FILE).write_bytes(content)
    wrong = [text for text, _ in misfits(with_plugin(folders=("/nowhere", str(tmp_path))), FITS.marks, "root")]
    assert len(wrong) == len(says)
    assert all(word in text for word, text in zip(says, wrong, strict=True))


@pytest.mark.parametrize("config", [PLUGIN, Config()])
def test_a_file_that_slurmctld_would_not_load_is_a_fault_whatever_the_lever_is(tmp_path: Path, config: Config) -> None:
    (tmp_path / FILE).write_bytes(b"tesched-built-for=22.05.8")
    ((level, text),) = [one for one in found(config, with_plugin(folders=(str(tmp_path),))) if str(tmp_path) in one[1]]
    assert level is Severity.FAIL
    assert "slurmctld will not start again" in text


@pytest.mark.parametrize(("host", "levels"), [(socket.gethostname(), [Severity.FAIL]), ("elsewhere", [])])
def test_a_missing_file_is_a_fault_on_slurmctlds_host_alone(tmp_path: Path, host: str, levels: list[Severity]) -> None:
    said = found(settings=with_plugin(folders=(str(tmp_path),)), values={"SlurmctldHost[0]": f"{host}(10.0.0.1)"})
    assert [level for level, text in said if "slurmctld will not start again" in text] == levels
