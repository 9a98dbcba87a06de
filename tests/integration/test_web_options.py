"""`tesched web`: where it listens, for which users, and what it says to options that are wrong."""

from __future__ import annotations

import grp
import os
import socket
import stat
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tesched_db.engine import open_store
from tesched_testcluster.harness.other_user import prefix
from tesched_testcluster.harness.web_process import running_web
from tesched_testcluster.patience import HANG_S

from tests.missing_packages import hide
from tests.users_text import configuration as configured
from tests.users_text import fill, tesched

TOKEN = "0123456789abcdef-token"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    configured(tmp_path)
    return tmp_path


def get(address: str, **headers: str) -> tuple[int, str]:
    """Return status and text of the page."""
    asking = urllib.request.Request(f"{address}/", headers=headers)  # noqa: S310 - our own
    try:
        with urllib.request.urlopen(asking, timeout=HANG_S) as answer:  # noqa: S310
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_unix_socket_is_for_its_user_and_group_and_goes_with_the_process(folder: Path) -> None:
    fill(folder, "ada")
    path = folder / "web.sock"
    with running_web(folder / "tesched.toml", listen=str(path)) as where:
        assert where == str(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        with socket.socket(socket.AF_UNIX) as channel:
            channel.connect(str(path))
            channel.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
            assert channel.recv(15, socket.MSG_WAITALL) == b"HTTP/1.1 200 OK"
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
        as_nobody = (*prefix(), "setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "env", "HOME=/")
        with running_web(open_folder / "tesched.toml", before=as_nobody) as address:
            assert '<dd id="n-te-pending">1</dd>' in get(address)[1]
    daemon.dispose()


def token_file(folder: Path, text: str = f"{TOKEN}\n", mode: int = 0o600) -> Path:
    path = folder / "token"
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("host", ["0.0.0.0", ""], ids=["IPv4", "all"])  # noqa: S104 - with a token
def test_an_address_for_other_hosts_is_served_with_a_token(folder: Path, host: str) -> None:
    fill(folder, "ada")
    argv = ("--token-file", str(token_file(folder)), "--allow-host", "tesched.example.org")
    with running_web(folder / "tesched.toml", *argv, host=host) as address:
        here = f"http://127.0.0.1:{address.rpartition(':')[2]}"
        assert get(here)[0] == 401
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert get(here, **bearer)[0] == 200
        assert get(here, Host="tesched.example.org", **bearer)[0] == 200
        assert get(here, Host="other.example.org", **bearer)[0] == 400


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
