"""The ordinary script of the loads: what it says of its work is so."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from pathlib import Path

from tesched_testcluster.load import EventName, read_events, scripts_in


def test_a_tick_that_was_cut_short_is_no_work(tmp_path: Path) -> None:
    script = scripts_in(tmp_path).with_name("ordinary.sh")
    variables = {"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "be-1", "SLURMD_NODENAME": "n1", "PATH": "/usr/bin:/bin"}
    argv = ["bash", str(script), "1", "1000", "unaware", "0", "0", str(tmp_path), "99", "0", "0"]
    with subprocess.Popen(argv, env=variables) as process:
        sleeps = Path(f"/proc/{process.pid}/task/{process.pid}/children")

        def sleep_of_it() -> int:
            """Wait for the sleep of the present tick."""
            limit = time.monotonic() + 30
            while time.monotonic() < limit:
                for child in sleeps.read_text().split():
                    # It may be gone between the two reads.
                    with suppress(FileNotFoundError, ProcessLookupError):
                        if Path(f"/proc/{child}/comm").read_text() == "sleep\n":
                            return int(child)
                time.sleep(0.01)
            raise AssertionError("the script does not sleep")

        first = sleep_of_it()
        subprocess.run(["kill", str(first)], check=True)
        second = sleep_of_it()
        while second == first:
            second = sleep_of_it()
        process.kill()
        subprocess.run(["kill", str(second)], check=True)
    assert [event.name for event in read_events(tmp_path)] == [EventName.START]
