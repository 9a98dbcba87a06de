"""Pictures of the live page and of top for the documents, from a real run: Slurm, daemon, `tesched web`, a browser.

Best-effort jobs of several lengths fill eight nodes, with more in the queue; trial-and-error jobs come in between. The
pictures are taken while one of those waits in its victim's grace period.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from functools import partial
from io import BytesIO
from pathlib import Path

from PIL import Image
from selenium.webdriver import Chrome
from tesched_slurm.client_choice import ClientChoice

from tesched_testcluster.harness.browser import browser, show
from tesched_testcluster.harness.daemon_process import Daemon, running_daemon
from tesched_testcluster.harness.top_pictures import pictures_of_top
from tesched_testcluster.harness.web_process import running_web
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.users import ordinary_users

#: name, width and height in pixels, whether the screen is dark, and whether one job's page is shown
PICTURES = (
    ("web-light", 1280, 1100, False, False),
    ("web-dark", 1280, 1100, True, False),
    ("web-phone", 390, 844, False, False),
    ("web-phone-dark", 390, 844, True, False),
    ("web-job", 1280, 640, True, True),
)
#: A picture has no more bytes: all who clone the project get it.
MOST_BYTES = 150_000
_COLOURS = 256
_BE, _TE = 30, 12
#: A job of some seconds that saves its work on its notice, within some more.
_SCRIPT = """#!/bin/bash
#SBATCH --signal=B:USR1@{grace}
trap 'sleep {saves}; scontrol requeue $SLURM_JOB_ID; sleep 30' USR1
for _ in $(seq {seconds}); do sleep 1 & wait $!; done
"""


def make_pictures(folder: Path) -> list[Path]:
    """Write the pictures into the folder and return their paths. Raises ValueError where one is too large."""
    made: list[Path] = []
    with tempfile.TemporaryDirectory(prefix="tesched-web-") as name, LocalCluster() as cluster:
        work = Path(name)
        with (
            running_daemon(cluster, work, ClientChoice.COMMANDS) as daemon,
            running_web(daemon.config) as address,
            browser(work) as driver,
        ):
            for job in _preempted(cluster, daemon):
                made += pictures_of_top(daemon.config, folder)
                for picture, width, height, dark, of_job in PICTURES:
                    show(driver, width=width, height=height, dark=dark)
                    driver.get(f"{address}/job/{job}" if of_job else f"{address}/?span=15m")
                    _await_live(cluster, driver)
                    made.append(folder / f"{picture}.png")
                    _save(driver, made[-1])
                    if made[-1].stat().st_size > MOST_BYTES:
                        raise ValueError(f"{made[-1]} has more than {MOST_BYTES} bytes: make it smaller")
            for left in cluster.jobs():
                cluster.run("scancel", left["JobId"])
    return made


def _save(driver: Chrome, path: Path) -> None:
    """Write what the browser shows, in few colours: a page has few, and the file is a third as large."""
    shot = Image.open(BytesIO(driver.get_screenshot_as_png()))
    few = shot.convert("RGB").quantize(_COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def _await_live(cluster: LocalCluster, driver: Chrome) -> None:
    cluster.wait_for(
        lambda: driver.execute_script("return document.querySelector('#live').dataset.state") == "live",
        "the page to be live",
    )


def _preempted(cluster: LocalCluster, daemon: Daemon) -> Iterator[int]:
    """Run the jobs; yield, once, a job that was preempted, while another one is in its grace period."""
    chosen = random.Random(7)  # noqa: S311 - the same run each time
    users = ordinary_users(3)
    options = ("-N1", "--exclusive", "--mem=100", "--output=/dev/null", f"--chdir={cluster.shared}")
    first = 0
    for number in range(_BE):
        script = cluster.shared / f"be-{number}.sh"
        # The first one takes its time to save, and is so the victim of the job that is pictured alone.
        times = {"grace": 60, "saves": 40, "seconds": 600} if number == 0 else {"grace": 8, "saves": 2}
        script.write_text(_SCRIPT.format(**{"seconds": chosen.randint(15, 60), **times}))
        name = ("resnet", "bert", "sweep", "gromacs")[number % 4]
        job = cluster.sbatch(*options, f"--job-name={name}-{number}", script=script, user=users[number % 2])
        first = first or job
    cluster.wait_for(lambda: _count(daemon, "be", "RUNNING") == 8, "full nodes")
    node = cluster.job(first)["NodeList"]
    for number in range(_TE):
        others = (*options, f"--exclude={node}")
        cluster.sbatch(*others, f"--job-name=te-debug-{number}", wrap=f"sleep {chosen.randint(6, 14)}", user=users[2])
        cluster.wait_for(partial(_have_ended, daemon, number - 1), "the orders before it to end")
    cluster.wait_for(lambda: _count(daemon, "te", "PENDING") == 0, "the trial-and-error jobs to start")
    last = cluster.sbatch(*options, "--job-name=te-debug-last", f"-w{node}", wrap="sleep 10", user=users[2])
    cluster.wait_for(partial(_has_victim, daemon, last), "the last one's victim")
    orders = daemon.json("orders")["orders"]
    yield next(victim["job_id"] for one in orders for victim in one["order"]["victims"] if victim["left_at"])


def _count(daemon: Daemon, job_class: str, state: str) -> int:
    queues = {queue["job_class"]: queue["states"] for queue in daemon.json("status")["queues"]}
    found: int = queues[job_class].get(state, 0)
    return found


def _has_victim(daemon: Daemon, preemptor: int) -> bool:
    orders = daemon.json("status")["orders"]
    return any(one["order"]["preemptor"] == preemptor and one["order"]["victims"] for one in orders)


def _have_ended(daemon: Daemon, orders: int) -> bool:
    found: int = daemon.json("status")["tally"]["orders"]
    return found >= orders
