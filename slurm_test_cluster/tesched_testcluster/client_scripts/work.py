"""The work of an ordinary job: it works until its second run, then a little longer; a `NAME.stop` ends it, too.

    python3 work.py NAME SIGNALS STATUS

At one of the signals (USR1,TERM) it saves where it is, and exits with the status; with '' it traps none. What it
does is a word a line in `NAME.events`: begun, saved, resumed, done.
"""

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

name, signals, status = sys.argv[1], sys.argv[2], int(sys.argv[3])
rank = os.environ.get("SLURM_PROCID", "0")
first = "SLURM_RESTART_COUNT" not in os.environ
saved = Path(f"{name}.{rank}.saved")
ticks = int(saved.read_text()) if saved.exists() else 0


def say(what: str) -> None:
    """Note what this run has come to."""
    if rank == "0":
        with Path(f"{name}.events").open("a") as out:
            out.write(f"{what}\n")


def save(_number: int, _frame: FrameType | None) -> None:
    """Save, and leave."""
    saved.write_text(str(ticks))
    say("saved")
    sys.exit(status)


for word in filter(None, signals.split(",")):
    signal.signal(getattr(signal, f"SIG{word}"), save)
say("resumed" if ticks else "begun")
left = 5
while left and not Path(f"{name}.stop").exists():
    time.sleep(0.1)
    ticks += 1
    left -= not first
say("done")
