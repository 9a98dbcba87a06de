"""Pytest, time and again, from one process that has its libraries loaded: `benchmarks.mutations` tries its rules in it.

Reads a JSON list of pytest's arguments a line, and answers with a line for each: pytest's exit status. Each call is a
fork of its own, so that it imports tesched and the tests as they are by then.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys

#: what most tests import, and what takes longest to load; nothing of tesched, since that is what changes
_LIBRARIES = (
    "alembic.command",
    "apscheduler.schedulers.background",
    "click.testing",
    "hypothesis.extra.pytestplugin",
    "hypothesis.stateful",
    "hypothesis.strategies",
    "msgspec",
    "numpy",
    "pytest",
    "rich.console",
    "sqlalchemy",
)


#: exit status for a pytest that raised; pytest itself has 0 to 5
CRASHED = 70
#: seconds after which a call is ended by a signal: a broken rule may keep a test from ever ending
_HANG_S = 1800


def main() -> None:
    """Answer line by line, until the input ends."""
    for name in _LIBRARIES:
        importlib.import_module(name)
    for line in sys.stdin:
        print(_status(json.loads(line)), flush=True)


def _status(arguments: list[str]) -> int:
    """Exit status of pytest with these arguments, in a child of its own; minus a signal's number if one ended it.

    What it prints is dropped. CRASHED: pytest itself did not come to an end.
    """
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = CRASHED
    signal.alarm(_HANG_S)
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        # Hypothesis is loaded before pytest could rewrite its asserts; there are none that tests rely on.
        status = int(sys.modules["pytest"].main(["-W", "ignore::pytest.PytestAssertRewriteWarning", *arguments]))
    finally:
        os._exit(status)


if __name__ == "__main__":
    main()
