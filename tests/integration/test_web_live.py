"""The live page's script in a real browser, behind a proxy that fails now and then."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import WebDriverWait
from tesched_core.model.cluster import JobState
from tesched_db.engine import open_store
from tesched_testcluster.harness.browser import browser
from tesched_testcluster.harness.store_examples import Writer, job, snapshot
from tesched_testcluster.patience import HANG_S

from tests.integration.test_web import Client, serving
from tests.users_text import configuration as configured


class Proxy(ThreadingHTTPServer):
    """A reverse proxy of the page; while it is `ill` it answers 502 and ends the streams that it has.

    `refused` is set once it has answered so to a request for the events.
    """

    def __init__(self, page: Client) -> None:
        self.page, self.ill, self.refused = page, threading.Event(), threading.Event()
        super().__init__(("127.0.0.1", 0), Forwarding)


class Forwarding(BaseHTTPRequestHandler):
    server: Proxy

    def do_GET(self) -> None:
        if self.server.ill.is_set():
            self.send_error(502)
            if self.path == "/events":
                self.server.refused.set()
            return
        answer = self.server.page.open(self.path)
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.headers["Content-Type"])
        self.end_headers()
        # The browser may have gone.
        with suppress(OSError):
            while not self.server.ill.is_set() and (line := answer.readline()):
                self.wfile.write(line)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def proxied(page: Client) -> Iterator[Proxy]:
    with Proxy(page) as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join(HANG_S)


def wait_until(driver: Chrome, css: str, text: str) -> None:
    # In one script: between two commands of the driver the page may exchange the element.
    shown = "return document.querySelector(arguments[0])?.innerText.trim()"
    WebDriverWait(driver, HANG_S).until(lambda _: driver.execute_script(shown, css) == text, text)


def test_a_page_asks_again_for_events_that_were_refused_and_follows_again(tmp_path: Path) -> None:
    configured(tmp_path)
    engine = open_store(f"sqlite:///{tmp_path}/store.sqlite")
    writer = Writer(engine)
    writer.look(time.time(), job(1, JobState.RUNNING))
    with serving(tmp_path) as page, proxied(page) as proxy, browser(tmp_path) as driver:
        driver.get(f"http://127.0.0.1:{proxy.server_port}/")
        wait_until(driver, "#live", "live")
        proxy.ill.set()
        # The stream ends with its next event. The browser tries again by itself, is refused, and gives up.
        writer.look(time.time(), job(1, JobState.RUNNING))
        wait_until(driver, "#live", "no connection; trying again")
        assert proxy.refused.wait(HANG_S)
        proxy.ill.clear()
        wait_until(driver, "#live", "live")
        writer.write(snapshot(time.time(), job(1, JobState.RUNNING), job(2), te=[2]))
        wait_until(driver, "#n-te-pending", "1")
    engine.dispose()
