"""`tesched web` over HTTP: what it answers, to which requests, and that it changes nothing."""

from __future__ import annotations

import base64
import grp
import http.client
import json
import os
import re
import socket
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest
import uvicorn
from sqlalchemy import update
from tesched_cli.common import configuration
from tesched_cli.web.app import HEADERS
from tesched_cli.web.command import LOOPBACK
from tesched_cli.web.content import Source
from tesched_cli.web.serving import server_of
from tesched_core.model.cluster import JobState
from tesched_core.model.decision import BoundNow, LeftOfBound
from tesched_db.engine import open_store, writing
from tesched_db.tables import DaemonRow
from tesched_testcluster.harness.other_user import prefix
from tesched_testcluster.harness.store_examples import Writer, job, snapshot
from tesched_testcluster.harness.web_process import running_web
from tesched_testcluster.patience import HANG_S

from tests.missing_packages import hide
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
    server = server_of(Source(engine, configuration(path)), hosts, token)
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
        writer.write(snapshot(time.time(), job(2), te=[2]))
        name, data = next(stream)
        assert (name, data["cycle"] if isinstance(data, dict) else None) == ("cycle", writer.memory.cycle)
        # A page that is read on an event has what the event is about.
        assert '<dd id="n-te-pending">1</dd>' in client.page()
        assert client.server is not None
        client.server.should_exit = True
        assert list(stream) == []
    engine.dispose()


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


def test_a_unix_socket_is_for_its_user_and_group_and_goes_with_the_process(folder: Path) -> None:
    fill(folder, "ada")
    path = folder / "web.sock"
    with running_web(folder / "tesched.toml", listen=str(path)) as where:
        assert where == str(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        with socket.socket(socket.AF_UNIX) as channel:
            channel.connect(str(path))
            channel.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
            assert channel.recv(15) == b"HTTP/1.1 200 OK"
    assert not path.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_with_no_right_but_to_read_serves_the_page(open_folder: Path) -> None:
    """As tesched-web.service runs it: in the group that may read the store, while a daemon has that open."""
    configured(open_folder)
    fill(open_folder, "ada")
    group = grp.getgrnam("nogroup").gr_gid
    daemon = open_store(f"sqlite:///{open_folder}/store.sqlite")
    with daemon.connect():
        for path in (open_folder, *open_folder.iterdir()):
            os.chown(path, 0, group)
            path.chmod(0o750 if path.is_dir() else 0o640)
        nobody = (*prefix(), "setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "env", "HOME=/")
        with running_web(open_folder / "tesched.toml", before=nobody) as address:
            client = Client(int(address.rpartition(":")[2]))
            assert '<dd id="n-te-pending">1</dd>' in client.page()
            client.close()
    daemon.dispose()


def token_file(folder: Path, text: str = f"{TOKEN}\n", mode: int = 0o600) -> Path:
    path = folder / "token"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_an_address_for_other_hosts_is_served_with_a_token(folder: Path) -> None:
    fill(folder, "ada")
    argv = ("--token-file", str(token_file(folder)), "--allow-host", "tesched.example.org")
    with running_web(folder / "tesched.toml", *argv, host="0.0.0.0") as address:  # noqa: S104 - with a token
        client = Client(int(address.rpartition(":")[2]))
        assert client.get("/")[0] == 401
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert client.get("/", **bearer)[0] == 200
        assert client.get("/", Host="tesched.example.org", **bearer)[0] == 200
        assert client.get("/", Host="other.example.org", **bearer)[0] == 400
        client.close()


@pytest.mark.parametrize("listen", ["0.0.0.0:8817", ":8817", "[::]:8817", "192.0.2.7:8817", "login1:8817"])
def test_an_address_for_other_hosts_is_refused_without_a_token(folder: Path, listen: str) -> None:
    answer = tesched(folder, "web", "--listen", listen)
    assert answer.exit_code == 2
    assert f"--listen {listen}: other hosts reach it" in answer.output
    assert "--token-file" in answer.output


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--listen", "8817"), '--listen 8817: it is "host:port"'),
        (("--listen", "localhost:99999"), '--listen localhost:99999: it is "host:port"'),
        (("--listen", "/" + "x" * 200), "a path has at most 107 bytes"),
        (("--listen", "/no/such/folder/web.sock"), "cannot be listened on: No such file or directory"),
        (("--token-file", "/no/such/file"), "--token-file /no/such/file: cannot be read: No such file"),
        (("--allow-host", "a:80"), "--allow-host a:80: a name or an address without a port"),
        (("--allow-host", "*"), "--allow-host *: a name or an address without a port"),
        (("--allow-host", ""), "a name or an address without a port"),
    ],
)
def test_a_wrong_option_is_named_with_what_would_be_right(folder: Path, argv: tuple[str, ...], said: str) -> None:
    answer = tesched(folder, "web", *argv, columns=300)
    assert (answer.exit_code, said in answer.output) == (2, True), answer.output


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        ("short", 0o600, "at least 16 letters"),
        ("", 0o600, "at least 16 letters"),
        ("two words of some length", 0o600, "without blanks"),
        ("two\nlines-of-some-length", 0o600, "one line"),
        ("né" * 20, 0o600, "letters of ASCII"),
        (TOKEN, 0o644, "every user of this host may use it"),
    ],
)
def test_a_token_that_is_none_is_refused(folder: Path, text: str, mode: int, said: str) -> None:
    path = token_file(folder, text, mode)
    answer = tesched(folder, "web", "--token-file", str(path), columns=300)
    assert (answer.exit_code, said in answer.output) == (2, True), answer.output
    assert TOKEN not in answer.output


def test_an_address_that_is_taken_is_named(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        listen = f"127.0.0.1:{other.getsockname()[1]}"
        answer = tesched(folder, "web", "--listen", listen, columns=300)
    assert answer.exit_code == 2
    assert f"--listen {listen}: cannot be listened on: Address already in use" in answer.output


def test_without_a_store_it_says_so_and_listens_nowhere(folder: Path) -> None:
    (folder / "store.sqlite").unlink()
    path = folder / "web.sock"
    answer = tesched(folder, "web", "--listen", str(path), columns=300)
    assert answer.exit_code == 2
    assert "store" in answer.output
    assert not path.exists()


@pytest.mark.parametrize(("package", "name"), [("starlette", "Starlette"), ("uvicorn", "Uvicorn")])
def test_without_its_extra_it_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, package: str, name: str
) -> None:
    hide(monkeypatch, package)
    answer = tesched(folder, "web", columns=300)
    assert answer.exit_code == 2
    assert f"tesched web needs {name}, which is not installed; pip install '.[web]'" in answer.output
