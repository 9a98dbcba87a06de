"""The example that lists idle jobs: by sstat's CPU times, between two samples."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest
from tesched_daemon.idle_file import IdleFile
from tesched_daemon.settings import IdleConfig

from tests.builders import cluster, node, running, share

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "idle_jobs.py"


def example() -> ModuleType:
    """Import the example."""
    spec = importlib.util.spec_from_file_location("idle_jobs", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("text", "right"), [("00:00.532", 0.532), ("01:02:03", 3723), ("2-00:00:01", 172_801), ("00:00:00", 0)]
)
def test_the_times_of_sstat_are_read(text: str, right: float) -> None:
    assert example().seconds(text) == pytest.approx(right)


def test_a_job_without_cpu_time_between_two_samples_is_listed_as_the_daemon_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle_jobs = example()
    samples = [
        ["1.extern|00:00:00|1", "1.batch|00:10.000|1", "1.0|00:01:00|4", "2.batch|00:10.000|1", "4.batch||1"],
        ["1.extern|00:00:00|1", "1.batch|00:10.100|1", "1.0|00:01:00|4", "2.batch|01:00.000|1", "3.batch|00:00:00|1"],
    ]
    at = [1000.0]

    def output(command: str, *_: str) -> list[str]:
        return ["1", "2", "3", "4"] if command == "squeue" else samples[0 if at[0] == 1000 else 1]

    def sleep(seconds: float) -> None:
        if at[0] > 1000:
            raise KeyboardInterrupt
        at[0] += seconds

    monkeypatch.setattr(idle_jobs, "output", output)
    monkeypatch.setattr(idle_jobs.time, "time", lambda: at[0])
    monkeypatch.setattr(idle_jobs.time, "sleep", sleep)
    monkeypatch.setattr(idle_jobs.sys, "argv", ["idle_jobs.py", str(tmp_path / "idle"), "60"])
    with pytest.raises(KeyboardInterrupt):
        idle_jobs.main()
    monkeypatch.undo()
    assert (tmp_path / "idle").read_text() == "1 1000\n"
    os.utime(tmp_path / "idle", (1060, 1060))
    read = IdleFile(config=IdleConfig(file=str(tmp_path / "idle"), after_s=60), clock=lambda: 1060.0)
    seen = cluster([node("n1")], [running(1, share("n1", 1), start_time=0.0)], at=1060.0)
    assert (read.read(seen), read.trouble) == ({1: 1000.0}, "")
