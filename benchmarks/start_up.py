"""CPU time of commands that read the state store, whole processes: `python -m benchmarks.start_up`.

`--beside PATH` measures another checkout's `tesched` in turns with this one, so that both have the same machine under
the same load. The store has one poll of 300 jobs and an order under way. Medians of `--times` runs each, user and
system time; byte code is there (it is written first, below a folder of its own).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from tesched_core.model.cluster import JobState
from tesched_db import migrate
from tesched_db.engine import open_store
from tesched_testcluster.harness.store_examples import Writer, job, notice, order, remembering, victim

#: the most that `tesched status` is to take, seconds of CPU time
LIMIT_S = 0.3
COMMANDS = (("--version",), ("status",), ("status", "--json"), ("jobs",), ("explain", "2"))


def store_of_one_poll(folder: Path) -> Path:
    """Make a store in the folder; return the configuration that names it."""
    config, url = folder / "tesched.toml", f"sqlite:///{folder}/store.sqlite"
    config.write_text(f'[store]\nurl = "{url}"\n')
    migrate.upgrade(url)
    engine = open_store(url)
    running = [job(number, JobState.RUNNING, nodes=[f"n{number}"]) for number in range(3, 300, 2)]
    seen = [job(1, JobState.RUNNING, nodes=["n1", "n2"]), *running, *map(job, range(2, 300, 2))]
    remembered = remembering(order(1, 2, victim(1)))
    Writer(engine).look(time.time(), *seen, te=[2], memory=remembered, actions=[notice(1, 2, 1)])
    engine.dispose()
    return config


def cpu_s(words: list[str], environment: dict[str, str]) -> float:
    """Run a command to its end; return its CPU time, seconds. Its output and exit status count for nothing."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print one line a command."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--beside", type=Path, action="append", default=[], help="another tesched to measure")
    options.add_argument("--times", type=int, default=10)
    options.add_argument("--only", help='one command alone, such as "status --json"')
    given = options.parse_args()
    programs = [Path(sys.executable).parent / "tesched", *given.beside]
    print("\n".join(f"{place}: {program}" for place, program in enumerate(programs)))
    print(f"{'COMMAND':16}" + "".join(f"{f'{place}, S OF CPU':>14}" for place in range(len(programs))) + "   LIMIT S")
    with tempfile.TemporaryDirectory() as folder:
        config = store_of_one_poll(Path(folder))
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = f"{folder}/byte-code"
        commands = [tuple(given.only.split())] if given.only else COMMANDS
        for words in commands:
            named = [] if words == ("--version",) else ["--config", str(config)]
            calls = [[str(program), *words, *named] for program in programs]
            for call in calls:
                cpu_s(call, environment)
            turns = [[cpu_s(call, environment) for call in calls] for _ in range(given.times)]
            medians = "".join(f"{median(times):>14.3f}" for times in zip(*turns, strict=True))
            limit = f"{LIMIT_S:>10.1f}" if words == ("status",) else ""
            print(f"{' '.join(words):16}{medians}{limit}", flush=True)
    print("load of the last minute, 5 and 15 minutes:", *(f"{load:.1f}" for load in os.getloadavg()))


if __name__ == "__main__":
    main()
