"""Cost of reports for the training that writes them and the daemon that reads them: `python -m benchmarks.reports`."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter

from tesched_core.model.cluster import Job, JobState, NodeShare
from tesched_core.model.job_report import MOST_POINTS, parse
from tesched_core.model.resources import JobId, Tres
from tesched_daemon.job_reports import spool as reports
from tesched_daemon.job_reports.inbox import Inbox
from tesched_daemon.job_reports.munge import Munge
from tesched_daemon.job_reports.socket import listening
from tesched_daemon.job_reports.spool import Spool
from tesched_report.document import Document, Point
from tesched_report.reporter import Reporter
from tesched_testcluster.harness.private_munged import private_munged

CALLS = 100_000
JOBS = 4000
#: Less than what is kept of one user.
MESSAGES = 400
#: In the reports that are read: one more is not yet thinned.
LOSSES = 900
REPEATS = 20


def main() -> None:
    """Print one line for each figure."""
    with tempfile.TemporaryDirectory() as name:
        spool = Path(name)
        reporter = Reporter({"SLURM_JOB_ID": "1", "TESCHED_SPOOL": name})
        began = perf_counter()
        for iteration in range(CALLS):
            reporter.report(iteration=iteration, loss=1.0)
        print(f"a call of report            {(perf_counter() - began) / CALLS * 1e6:8.1f} us")
        reporter.flush()
        document = Document()
        for iteration in range(MOST_POINTS):
            document.add(Point(iteration, 1 / (iteration + 1), 1.7e9 + iteration))
        content = document.text()
        print(f"a report of {MOST_POINTS} losses     {len(content) / 1024:8.1f} KiB")
        print(f"  made by the training      {_ms(document.text):8.2f} ms")
        print(f"  checked by the daemon     {_ms(lambda: parse(content, now=1.8e9)):8.2f} ms")
        _read(spool)
        _send(content)


def _send(content: bytes) -> None:
    """Send reports from one host to the daemon's socket, four at once."""
    with tempfile.TemporaryDirectory() as name, private_munged(Path(name)) as munge_socket:
        munge = Munge(socket=munge_socket)
        sent = [munge.encoded(b"tesched-report 1 %d\n%b" % (job, content)) + b"\n" for job in range(MESSAGES)]
        address = f"{name}/report.sock"

        def client(messages: Sequence[bytes]) -> int:
            taken = 0
            for message in messages:
                with socket.socket(socket.AF_UNIX) as channel:
                    channel.connect(address)
                    channel.sendall(message)
                    taken += channel.recv(100) == b"ok\n"
            return taken

        with listening(address, munge_socket, Inbox()), ThreadPoolExecutor(4) as clients:
            began = perf_counter()
            taken = sum(clients.map(client, (sent[first::4] for first in range(4))))
            took_s = perf_counter() - began
        print(f"by the socket, a second     {taken / took_s:8.0f}")


def _read(spool: Path) -> None:
    """Read the reports of many jobs: all of them new, none, each with one loss more; once whole, once as the daemon."""
    folder = spool / str(os.geteuid())
    folder.mkdir(exist_ok=True)
    jobs = [_job(number) for number in range(1, JOBS + 1)]
    document = Document()
    for iteration in range(LOSSES):
        document.add(Point(iteration, 1 / (iteration + 1), 1.7e9 + iteration))

    def write() -> None:
        content = document.text()
        for job in jobs:
            # As the writer does it: a new file in the place of the old one.
            made = folder / f".{job.job_id}"
            made.write_bytes(content)
            made.replace(folder / f"{job.job_id}.json")
        newest = document.points[-1].iteration + 1
        document.add(Point(newest, 1 / newest, 1.7e9 + newest))

    write()
    daemons = _reader(spool)
    in_a_round = len(daemons.look(jobs))
    reader = _reader(spool)
    with _unbounded():
        for what in ("all of them new", "none of them new", "one loss more"):
            if what == "one loss more":
                write()
            began = perf_counter()
            reader.look(jobs)
            print(f"{JOBS} reports, {what:16}{perf_counter() - began:8.2f} s")
    print(f"new reports in one round    {in_a_round:8}")
    write()
    rounds, behind = 0, JOBS
    newest = document.points[-2].iteration
    while behind:
        found = reader.look(jobs)
        rounds += 1
        behind = sum(int(one.curve.iteration[-1]) < newest for one in found.values())
    print(f"rounds until {JOBS} have been heard again, with a loss more {rounds:3}")


@contextmanager
def _unbounded() -> Iterator[None]:
    before = reports.ROUND_S, reports.MOST_JOBS
    reports.ROUND_S, reports.MOST_JOBS = 1e9, JOBS
    yield
    reports.ROUND_S, reports.MOST_JOBS = before


def _reader(spool: Path) -> Spool:
    return Spool(spool, number_of=lambda _user: os.geteuid())


def _job(number: int) -> Job:
    share = NodeShare(node="n1", tres=Tres(cpus=1))
    return Job(job_id=JobId(number), user="ada", state=JobState.RUNNING, allocation=(share,))


def _ms(call: Callable[[], object]) -> float:
    def once() -> float:
        began = perf_counter()
        call()
        return perf_counter() - began

    return median(once() for _ in range(REPEATS)) * 1e3


if __name__ == "__main__":
    main()
