"""The live page of a daemon beside a real Slurm, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.keys import Keys
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.harness.browser import browser, show
from tesched_testcluster.harness.daemon_process import Daemon, running_daemon
from tesched_testcluster.harness.web_process import running_web
from tesched_testcluster.local import LocalCluster

pytestmark = pytest.mark.slurm

EVIL = "<script>alert(1)</script>"
#: takes its notice and stays until it is requeued
STAYS = "#!/bin/bash\n#SBATCH --signal=B:USR1@15\ntrap : USR1\nwhile :; do sleep 600 & wait; done\n"
NUMBER = re.compile(r"\d[\d.:]*")
WIDTHS = (390, 1280, 2560)


@contextmanager
def page_of(cluster: LocalCluster, folder: Path) -> Iterator[tuple[Daemon, Chrome, str]]:
    """Give a daemon that polls twice a second, a browser, and the address of the page."""
    with (
        running_daemon(cluster, folder, ClientChoice.COMMANDS) as daemon,
        running_web(daemon.config) as address,
        browser(folder) as driver,
    ):
        yield daemon, driver, address


def text_of(driver: Chrome, css: str) -> str:
    """Return the text of an element as it stands now; empty if there is none."""
    said: str = driver.execute_script("return document.querySelector(arguments[0])?.textContent ?? ''", css)
    return said


def said_by(driver: Chrome) -> dict[str, Any]:
    """Return what the page says, in the terms of `tesched status --json`."""
    number = {
        key: int(text_of(driver, f"#n-{key}")) for key in ("te-pending", "te-running", "be-running", "be-pending")
    }
    orders = driver.execute_script(
        "return [...document.querySelectorAll('[data-order]')].map(one => one.dataset.order)"
    )
    rows = driver.execute_script(
        "return [...document.querySelectorAll('[data-part=queues] tbody tr')].map("
        "row => [...row.children].map(cell => cell.textContent))"
    )
    return {
        "well": text_of(driver, "#health").startswith("well: pid "),
        "te": (number["te-pending"], number["te-running"]),
        "be": (number["be-pending"], number["be-running"]),
        "orders": [int(one) for one in orders],
        "futile": int(text_of(driver, "#n-futile")),
        "slowdowns": {row[0].lower(): (row[4], row[5]) for row in rows},
    }


def said_by_json(status: Any) -> dict[str, Any]:
    """Return the same of `tesched status --json`."""
    queues = {queue["job_class"]: queue for queue in status["queues"]}
    waits_and_runs = {
        name: (queues[name]["states"].get("PENDING", 0), queues[name]["states"].get("RUNNING", 0))
        for name in ("te", "be")
    }
    form = "{:.2f}".format
    return {
        "well": status["state"] == "well",
        **waits_and_runs,
        "orders": [one["order"]["order_id"] for one in status["orders"]],
        "futile": status["tally"]["futile"],
        "slowdowns": {
            name: tuple(
                "-" if queue["slowdown"][key] is None else form(queue["slowdown"][key]) for key in ("p50", "p95")
            )
            for name, queue in queues.items()
        },
    }


@pytest.mark.gate
def test_the_page_says_what_status_says_and_follows_the_daemon_without_being_loaded_again(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    options = ("-N1", "--exclusive", "--mem=100", "--output=/dev/null", f"--chdir={cluster.shared}")
    stays = cluster.shared / "stays.sh"
    stays.write_text(STAYS)
    with page_of(cluster, tmp_path) as (daemon, driver, address):
        be = [
            cluster.sbatch(*options, f"--job-name={name}", script=stays)
            for name in (EVIL, *(f"be-{number}" for number in range(1, 8)))
        ]
        for job in be:
            cluster.wait_state(job, "RUNNING")
        show(driver, width=1280)
        driver.get(address)
        driver.execute_script("window.marker = 'the same document'")
        cluster.wait_for(lambda: said_by(driver)["be"] == (0, 8), "the running jobs to be shown")
        assert text_of(driver, "#live") == "live"

        node = cluster.job(be[0])["NodeList"]
        te = cluster.sbatch(*options, "--job-name=te-new", f"-w{node}", wrap="sleep 600")
        cluster.wait_for(lambda: "te-new" in text_of(driver, "[data-part=waiting]"), "the TE job to appear by itself")
        assert said_by(driver)["te"] == (1, 0)
        # An order is on the page before its notice is.
        cluster.wait_for(
            lambda: f"{be[0]} noticed, " in text_of(driver, "[data-order='1']"), "its order, and the notice"
        )
        assert f"{te} of " in text_of(driver, "[data-order='1']")
        pictures(driver, tmp_path / "grace")

        cluster.wait_state(te, "RUNNING")
        cluster.wait_for(
            lambda: said_by(driver) == said_by_json(daemon.json("status")) and said_by(driver)["te"] == (0, 1),
            "the page to say what `tesched status --json` says",
        )
        assert driver.execute_script("return window.marker") == "the same document"

        # A name of a job is text, in the drawing, its titles and on the job's own page.
        assert EVIL in text_of(driver, "[data-part=timeline]")
        assert driver.execute_script("return document.querySelectorAll('script').length") == 1
        # In one script: between two commands of the driver the page may exchange the drawing.
        assert driver.execute_script("return document.querySelectorAll('.runs svg.mark').length") == 2, (
            "a notice, and a departure"
        )
        pictures(driver, tmp_path / "main")
        fits(driver)

        focused = keys(driver, 3)
        assert focused[0] == "Skip to the content"
        assert focused[1:] == ["15m", "1h"]

        driver.get(f"{address}/job/{be[0]}")
        cluster.wait_for(lambda: not_said(driver, daemon, be[0]) == [], "the job's page to say what explain says")
        assert EVIL in text_of(driver, "#story")
        fits(driver)
        pictures(driver, tmp_path / "job")
        assert errors(driver) == []


def not_said(driver: Chrome, daemon: Daemon, job: int) -> list[str]:
    """Return the lines of `tesched explain` that the job's page does not have, but for numbers: times run on."""
    story = NUMBER.sub("#", text_of(driver, "#story"))
    lines = daemon.ask("explain", str(job)).stdout.splitlines()
    # Of a line with a key the words after it.
    words = (NUMBER.sub("#", line[10:] if line.startswith("  ") else line).strip() for line in lines)
    return [one for one in words if one not in story]


def errors(driver: Chrome) -> list[str]:
    """Return what the browser's console has, of any level."""
    return [entry["message"] for entry in driver.get_log("browser")]  # type: ignore[no-untyped-call]


def keys(driver: Chrome, count: int) -> list[str]:
    """Return the texts of what so many strokes of the Tab key bring the focus to; each must be seen to have it."""
    driver.execute_script("document.activeElement.blur(); window.scrollTo(0, 0)")
    found = []
    for _ in range(count):
        driver.switch_to.active_element.send_keys(Keys.TAB)
        focused = driver.switch_to.active_element
        assert focused.value_of_css_property("outline-style") == "solid"
        found.append(str(driver.execute_script("return document.activeElement.textContent")))
    return found


def fits(driver: Chrome) -> None:
    """Assert that the page is nowhere wider than the screen, and that its drawings have names."""
    for width in WIDTHS:
        show(driver, width=width)
        wide = driver.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
        assert wide[0] <= wide[1] == width, wide
    named = driver.execute_script(
        "return [...document.querySelectorAll('svg[role=img]')].map(one => one.getAttribute('aria-labelledby')"
        ".split(' ').map(id => document.getElementById(id)?.textContent ?? ''))"
    )
    assert named
    assert all(text for texts in named for text in texts), named
    show(driver, width=1280)


def pictures(driver: Chrome, path: Path) -> None:
    """Keep screenshots, light and dark, beside the daemon's log: pytest keeps the folders of its last runs."""
    for width in (390, 1280):
        for dark in (False, True):
            show(driver, width=width, dark=dark)
            assert driver.save_screenshot(f"{path}-{width}-{'dark' if dark else 'light'}.png")
    show(driver, width=1280)
