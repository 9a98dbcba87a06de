"""An interrupted pool of processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PROGRAM = """
import signal, sys, time
from pathlib import Path
from tesched_sim.pool import each_done

def work(number):
    Path(sys.argv[1], str(number)).touch()
    time.sleep(300)

# Where the tests are run in the background, it is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
list(each_done(work, range(8), processes=2))
"""
#: seconds within which what is awaited happens on a slow machine
SOON_S = 60.0


def test_ctrl_c_ends_the_pool_and_not_only_the_work_under_way(tmp_path: Path) -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        until = time.monotonic() + SOON_S
        while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        os.killpg(run.pid, signal.SIGINT)
        assert run.wait(SOON_S) != 0
        assert len(list(tmp_path.iterdir())) == 2
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
