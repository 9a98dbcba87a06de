"""`tesched web` over HTTP: what it answers, to which requests, and that it changes nothing."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import uvicorn
from sqlalchemy import update
from tesched_cli.common import configuration
from tesched_cli.web import app
from tesched_cli.web import serving as web_serving
from tesched_cli.web.app import HEADERS
from tesched_cli.web.command import LOOPBACK
from tesched_cli.web.content import StoreSource
from tesched_cli.web.serving import MOST_CLIENTS, server_of
from tesched_core.model.cluster import JobState
from tesched_core.model.decision import BoundNow, LeftOfBound
from tesched_db.engine import open_store, writing
from tesched_db.tables import DaemonRow
from tesched_testcluster.harness.store_examples import Writer, job, snapshot
from tesched_testcluster.patience import HANG_S

from tests.users_text import configuration as configured
from tests.users_text import fill, tesched

TOKEN = "0123456789abcdef-token"
EVIL = "<script>alert(1)</script>"


class Client:
    """What speaks to the page."""

    def __init__(self, port: int, server: uvicorn.Server | None = None) -> None:
        self.port, self.server = port, server
        self._connections: list[http.client.HTTPConnection] = []

    def open(
        self, path: str, *, method: str = "GET", headers: Mapping[str, str] | None = None
    ) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANG_S)
        self._connections.append(connection)
        connection.request(method, path, headers=dict(headers or {}))
        return connection.getresponse()

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        answer = self.open(path, headers=headers)
        return answer.status, answer.read().decode()

    def page(self, path: str = "/") -> str:
        status, text = self.get(path)
        assert status == 200, text
        return text


@contextmanager
def serving(folder: Path, *, token: str | None = None, hosts: tuple[str, ...] = LOOPBACK) -> Iterator[Client]:
    """Serve the store of this folder's configuration in a thread of this process."""
    path = folder / "tesched.toml"
    engine = open_store(f"sqlite:///{folder}/store.sqlite", read_only=True)
    listener = socket.create_server(("127.0.0.1", 0))
    server = server_of(StoreSource(engine, configuration(path)), hosts, token)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    client = Client(listener.getsockname()[1], server)
    try:
        yield client
    finally:
        server.should_exit = True
        thread.join(HANG_S)
        client.close()
        listener.close()
        engine.dispose()
    assert not thread.is_alive()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    configured(tmp_path)
    return tmp_path


@pytest.fixture
def client(folder: Path) -> Iterator[Client]:
    fill(folder, EVIL)
    with serving(folder) as found:
        yield found


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 200),
        ("/?span=6h", 200),
        ("/?span=7h", 400),
        ("/job/1", 200),
        ("/job/20_1", 200),
        ("/job/77", 404),
        ("/job/x", 404),
        ("/job/" + "1" * 200, 404),
        ("/style.css", 200),
        ("/live.js", 200),
        ("/icon.svg", 200),
        ("/nowhere", 404),
        ("/../etc/passwd", 404),
    ],
)
def test_each_answer_has_the_headers_that_forbid_what_the_page_does_not_need(
    client: Client, path: str, status: int
) -> None:
    answer = client.open(path)
    assert answer.status == status
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    policy = answer.headers["Content-Security-Policy"]
    for needed in ("default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'"):
        assert f"{needed};" in policy
    assert "unsafe" not in policy
    assert answer.headers["Server"] is None


def test_the_page_needs_nothing_from_outside_and_no_style_or_script_in_it(client: Client) -> None:
    for path in ("/", "/job/1", "/job/77"):
        text = client.get(path)[1]
        assert set(re.findall(r'(?:src|href)="([^"#][^"?]*)', text)) <= {
            *("/", "/style.css", "/live.js", "/icon.svg", "/job/1", "/job/2", "/job/20_1"),
        }
        # The policy would forbid them, and a browser say so in its console.
        assert not re.findall(r'<style|<script>|\sstyle="|\son[a-z]+="|javascript:', text)
        assert re.findall(r"<script\b[^>]*>", text) in ([], ['<script src="/live.js" defer="defer">'])


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost@evil", ""])
def test_a_request_for_another_host_is_refused(client: Client, host: str) -> None:
    answer = client.open("/", headers={"Host": host})
    assert answer.status == 400
    assert b"TE" not in answer.read()
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8817", "[::1]:8817"])
def test_a_request_for_the_loopback_is_served(client: Client, host: str) -> None:
    assert client.get("/", Host=host)[0] == 200


def basic(password: str) -> str:
    return f"Basic {base64.b64encode(f'any:{password}'.encode()).decode()}"


@pytest.mark.parametrize("path", ["/", "/job/1", "/events", "/style.css", "/nowhere"])
@pytest.mark.parametrize(
    "given",
    ["", "Bearer", "Bearer wrong", f"Bearer {TOKEN}x", basic("wrong"), "Basic !", "Basic w6k=", f"Digest {TOKEN}"],
)
def test_without_the_token_there_is_no_answer(folder: Path, path: str, given: str) -> None:
    with serving(folder, token=TOKEN) as client:
        answer = client.open(path, headers={"Authorization": given} if given else {})
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"].startswith("Basic ")


@pytest.mark.parametrize("given", [f"Bearer {TOKEN}", f"bearer {TOKEN}", basic(TOKEN)])
def test_with_the_token_the_page_is_served(folder: Path, given: str) -> None:
    with serving(folder, token=TOKEN) as client:
        assert client.get("/", Authorization=given)[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", ["/", "/job/1", "/events"])
def test_nothing_can_be_sent_to_it(client: Client, method: str, path: str) -> None:
    assert client.open(path, method=method).status == 405


def test_the_head_of_the_events_is_answered_and_the_connection_serves_the_next_request(client: Client) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=HANG_S)
    for method, path in (("HEAD", "/events"), ("GET", "/icon.svg")):
        connection.request(method, path)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200
    connection.close()


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: "])
def test_connections_that_send_no_request_do_not_keep_others_out(
    client: Client, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(web_serving, "REQUEST_S", 0.5)
    stream = client.open("/events")
    silent = [socket.create_connection(("127.0.0.1", client.port), HANG_S) for _ in range(MOST_CLIENTS - 1)]
    for channel in silent:
        channel.sendall(sent)
    for channel in silent:
        assert channel.recv(1) == b""
        channel.close()
    assert client.get("/")[0] == 200
    assert next(events(stream))[0] == "cycle", "an open page stays connected"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (EVIL, "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("'\"><img src=x onerror=alert(1)>", "&#39;&#34;&gt;&lt;img src=x onerror=alert(1)&gt;"),
        ("{{ 7 * 7 }}{% raw %}", "{{ 7 * 7 }}{% raw %}"),
        ("a\u202eb\u2066c", r"a\u202eb\u2066c"),
        ("a\x1b[2Jb\nc", r"a\x1b[2Jb\nc"),
    ],
)
def test_what_users_call_their_jobs_is_text(folder: Path, text: str, shown: str) -> None:
    fill(folder, text)
    with serving(folder) as client:
        for path in ("/", "/job/1", "/job/2", "/job/20_1"):
            page = client.page(path)
            assert shown in page, path
            assert "<img" not in page
            assert re.findall(r"<script\b[^>]*>", page) == ['<script src="/live.js" defer="defer">']
            assert page.replace("\n", "").isprintable()


def test_the_page_says_what_status_and_explain_say(folder: Path, client: Client) -> None:
    page = client.page()
    status = json.loads(tesched(folder, "status", "--json").output)
    queues = {queue["job_class"]: queue["states"] for queue in status["queues"]}
    for key, job_class, state in (("te-pending", "te", "PENDING"), ("be-running", "be", "RUNNING")):
        assert f'<dd id="n-{key}">{queues[job_class][state]}</dd>' in page
    (order,) = status["orders"]
    assert f'data-order="{order["order"]["order_id"]}"' in page
    assert status["daemon"]["mode"] in page
    # The sentence but for its seconds.
    assert status["health"].split(" ago")[0].split(", last")[0].split("up ")[0] in page.replace("&lt;", "<").replace(
        "&gt;", ">"
    )
    story = client.page("/job/2")
    for line in tesched(folder, "explain", "2", columns=300).output.splitlines():
        words = line[10:] if line.startswith("  ") else line
        if "waited" not in line and EVIL not in line:
            assert words.strip() in story.replace("&#39;", "'"), line


def test_what_is_left_of_bounds_is_shown_nearest_first(folder: Path) -> None:
    fill(folder, "ada")
    now = BoundNow(
        slowdown=3.0,
        te_time_limit_s=60.0,
        costs_s=10.0,
        te_waiting=1,
        near=1,
        jobs=(
            LeftOfBound(job="1", user="ada", delayed_s=90.0, bound_s=100.0, near=True),
            LeftOfBound(job="20_1", user="ada", delayed_s=25.0, bound_s=100.0, near=False),
        ),
    )
    engine = open_store(f"sqlite:///{folder}/store.sqlite")
    with writing(engine).begin() as connection:
        connection.execute(update(DaemonRow).values(bound=asdict(now)))
    engine.dispose()
    with serving(folder) as client:
        page = client.page()
    meters = re.findall(r'value="([0-9.]+)" aria-label="([^"]+)"', page)
    assert meters == [("0.900", "90 % of its bound"), ("0.250", "25 % of its bound")]
    assert "90 % (near)" in page
    assert "1 TE job(s) wait for it" in page


def test_nothing_is_written_to_the_store_or_beside_it(folder: Path) -> None:
    fill(folder, "ada")
    engine = open_store(f"sqlite:///{folder}/store.sqlite")
    engine.dispose()

    def contents() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if not path.name.endswith("-shm")}

    before = contents()
    with serving(folder) as client:
        for path in ("/", "/job/1", "/?span=1d", "/job/20_1"):
            client.page(path)
    assert contents() == before


def events(answer: http.client.HTTPResponse) -> Iterator[tuple[str, object]]:
    """Yield each event: its name and its data."""
    name = ""
    while line := answer.readline().decode():
        if line.startswith("event: "):
            name = line.removeprefix("event: ").strip()
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def test_an_event_comes_at_once_and_with_each_cycle_and_the_stream_ends_with_the_server(folder: Path) -> None:
    engine = open_store(f"sqlite:///{folder}/store.sqlite")
    writer = Writer(engine)
    writer.look(time.time(), job(1, JobState.RUNNING))
    with serving(folder) as client:
        answer = client.open("/events")
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        stream = events(answer)
        assert next(stream)[0] == "cycle"
        assert '<dd id="n-te-pending">0</dd>' in client.page()
        writer.write(snapshot(time.time(), job(2), te=[2]))
        name, data = next(stream)
        assert (name, data["cycle"] if isinstance(data, dict) else None) == ("cycle", writer.memory.cycle)
        # A page that is read on an event has what the event is about.
        assert '<dd id="n-te-pending">1</dd>' in client.page()
        assert client.server is not None
        client.server.should_exit = True
        assert list(stream) == []
    engine.dispose()


def test_events_end_once_the_server_is_to_end_whatever_else_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server itself would cancel them, but only when its time to end is over."""
    monkeypatch.setattr(app, "EVERY_S", 0.0)
    cycles, ending = iter(range(3)), iter([False, False, True])
    source = SimpleNamespace(pulse=lambda: SimpleNamespace(cycle=next(cycles), state="well"))
    pages = app._Pages(cast("StoreSource", source), lambda: next(ending))

    async def every() -> list[str]:
        return [event async for event in pages._events()]

    assert len(asyncio.run(every())) == 2


def test_a_store_that_is_gone_is_an_error_on_the_page_and_trouble_in_the_events(folder: Path) -> None:
    fill(folder, "ada")
    with serving(folder) as client:
        client.page()
        answer = client.open("/events")
        stream = events(answer)
        assert next(stream)[0] == "cycle"
        (folder / "store.sqlite").rename(folder / "elsewhere.sqlite")
        assert next(stream)[0] == "trouble"
        status, text = client.get("/?span=15m")
        assert status == 503
        assert "The state store cannot be read" in text
        (folder / "elsewhere.sqlite").rename(folder / "store.sqlite")
        assert next(stream)[0] == "cycle"
        answer.close()
