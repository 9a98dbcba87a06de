"""`tesched web`: a live page of the state store, on an address of the loopback or a Unix socket."""

from __future__ import annotations

import re
import socket
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

import click
from tesched_core.model.extra import Extra
from tesched_core.model.told_error import ToldError
from tesched_daemon.job_reports.address import TcpAddress, address_of, is_loopback
from tesched_daemon.metrics.endpoint import bound

from tesched_cli.common import config_option, configuration, refuse_without, say, store_of

STARLETTE = Extra(package="Starlette", module="starlette.applications", install=".[web]")
UVICORN = Extra(package="Uvicorn", module="uvicorn.server", install=".[web]")
#: Names by which a browser on this host reaches the loopback.
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
#: Letters of a token, at least; a longer one is no harder to write into a file.
LEAST_TOKEN = 16
#: A name, an IPv4 address, or an IPv6 address in brackets.
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")


class ListenError(ToldError):
    """The page cannot be served there. The text names the option, and says what would be right."""


@click.command()
@config_option
@click.option(
    "--listen",
    default="127.0.0.1:8817",
    show_default=True,
    help="Address: host:port, :port for all of this host's, or the absolute path of a Unix socket.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file with the token that each request must have; needed for an address that other hosts reach.",
)
@click.option(
    "--allow-host",
    "more_hosts",
    multiple=True,
    metavar="NAME",
    help="A name besides by which browsers reach the page, such as a reverse proxy's; may be given several times.",
)
def web(*, config_path: Path, listen: str, token_file: Path | None, more_hosts: tuple[str, ...]) -> None:
    """Serve a live page with a timeline of the nodes.

    It says what `status` and `explain` say. It reads the state store, never Slurm, and changes nothing; SIGTERM or
    Ctrl-C ends it (docs/howto/web.md).
    """
    refuse_without((STARLETTE, UVICORN), "tesched web")
    token = token_of(token_file) if token_file is not None else None
    hosts = hosts_of(listen, more_hosts, has_token=token is not None)
    config = configuration(config_path)
    with store_of(config) as engine:
        from tesched_cli.web.content import StoreSource  # noqa: PLC0415 - NumPy
        from tesched_cli.web.serving import serve  # noqa: PLC0415 - of the extra

        try:
            listener = bound(listen)
        except OSError as error:
            raise ListenError(f"--listen {listen}: cannot be listened on: {error.strerror}") from error
        try:
            say(f"the page is at {_where(listen, listener)}", err=True)
            serve(StoreSource(engine, config), listener, hosts, token)
        finally:
            listener.close()
            if listen.startswith("/"):
                with suppress(OSError):
                    Path(listen).unlink()


def token_of(path: Path) -> str:
    """Return the token that stands in a file. Raises ListenError if there is none, or others may read it."""
    try:
        text = path.read_text(encoding="ascii").strip()
        mode = path.stat().st_mode
    except OSError as error:
        raise ListenError(f"--token-file {path}: cannot be read: {error.strerror}") from error
    except UnicodeError:
        raise ListenError(f"--token-file {path}: a token is letters of ASCII, as of `openssl rand -hex 32`") from None
    if mode & 0o007:
        raise ListenError(f"--token-file {path}: every user of this host may use it; chmod o= {path}")
    if len(text) < LEAST_TOKEN or not text.isprintable() or " " in text:
        raise ListenError(
            f"--token-file {path}: a token is one line of at least {LEAST_TOKEN} letters without blanks, as of "
            "`openssl rand -hex 32`"
        )
    return text


def hosts_of(listen: str, more: tuple[str, ...], *, has_token: bool) -> tuple[str, ...]:
    """Return the names that a request's Host header may have. Raises ListenError for an address that is none.

    So does an address that other hosts reach, where there is no token.
    """
    try:
        where, is_inside = address_of(listen), is_loopback(listen)
    except ValueError as error:
        raise ListenError(f"--listen {listen}: {error}") from error
    if not is_inside and not has_token:
        raise ListenError(
            f"--listen {listen}: other hosts reach it, and whatever reaches it could read it: name a --token-file, or "
            "listen on 127.0.0.1 or on a Unix socket"
        )
    for name in more:
        if not _HOST.fullmatch(name):
            raise ListenError(f"--allow-host {name}: a name or an address without a port, such as tesched.example.org")
    own = (_own_name(where),) if isinstance(where, TcpAddress) else ()
    return tuple(dict.fromkeys(name.lower() for name in (*LOOPBACK, *own, *more)))


def _own_name(where: TcpAddress) -> str:
    """Name that a browser has for the address; for all of this host's addresses the host's name."""
    try:
        address = ip_address(where.host or "::")
    except ValueError:
        return where.host
    if address.is_unspecified:
        return socket.gethostname()
    return f"[{address}]" if address.version == 6 else str(address)


def _where(listen: str, listener: socket.socket) -> str:
    if listener.family == socket.AF_UNIX:
        return f"the Unix socket {listen}"
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"
