"""The application behind `tesched web`: what is read at which address, and what every answer has.

    /              the page; `?span=15m` (1h, 6h, 1d) is how far the timeline goes back
    /job/ID        one job's story
    /events        server-sent events: `cycle` when a cycle has ended, or the daemon's state is another; `trouble` when
                   the store cannot be read
    /style.css, /live.js, /icon.svg

It answers GET and HEAD alone, and reads the store only. Each answer forbids a browser what the page does not need
(`HEADERS`). A Host header that names another site is refused: such a request comes from a page of that site, which had
its own name point here (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from tesched_db.errors import StoreError
from tesched_sim.reports.style import style_sheet
from tesched_sim.reports.templating import rendered

from tesched_cli.web.content import SPANS, USUAL_SPAN, StoreSource
from tesched_cli.web.story import Story, story_of

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
#: Seconds between two reads for the events, and between two signs of life on a connection.
EVERY_S, ALIVE_S = 0.5, 15.0
_STATIC = Path(__file__).with_name("static")
#: The longest name of a job that is searched for, characters.
_LONGEST_JOB = 64


def application(
    source: StoreSource, hosts: Sequence[str], *, token: str | None = None, ending: Callable[[], bool] = lambda: False
) -> Starlette:
    """Return the application for these Host headers (names without ports), with a token for all; None: without.

    Once `ending` is true, streams of events end.
    """
    sheet = f"{style_sheet()}\n{(_STATIC / 'live.css').read_text(encoding='utf-8')}"
    files = {
        "/style.css": (sheet, "text/css"),
        "/live.js": ((_STATIC / "live.js").read_text(encoding="utf-8"), "text/javascript"),
        "/icon.svg": ((_STATIC / "icon.svg").read_text(encoding="utf-8"), "image/svg+xml"),
    }
    pages = _Pages(source, ending)
    return Starlette(
        routes=[
            Route("/", pages.index),
            Route("/job/{job}", pages.job),
            Route("/events", pages.events),
            *(Route(path, _file(text, kind)) for path, (text, kind) in files.items()),
        ],
        middleware=[
            Middleware(_Headers),
            Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False),
            Middleware(_Token, token=token),
        ],
        exception_handlers={StoreError: _no_store, HTTPException: _refused},
    )


def _file(text: str, kind: str) -> Callable[[Request], Response]:
    def answer(_request: Request) -> Response:
        return Response(text, media_type=kind)

    return answer


class _Pages:
    def __init__(self, source: StoreSource, ending: Callable[[], bool]) -> None:
        self._source, self._ending = source, ending

    # Starlette runs what is no coroutine in a thread of its pool: a slow store holds up no other request.

    def index(self, request: Request) -> Response:
        span = request.query_params.get("span", USUAL_SPAN)
        if span not in SPANS:
            raise HTTPException(400, f"span is {span!r}: it is one of {', '.join(SPANS)}")
        page = self._source.page(span)
        title = "tesched" if page.health.well else f"tesched: {page.health.state}"
        return HTMLResponse(
            rendered("live.html", title=title, page=page, spans=list(SPANS), version=version("tesched"))
        )

    def job(self, request: Request) -> Response:
        job = str(request.path_params["job"])
        story: Story | None = story_of(self._source, job) if job[:1].isdecimal() and len(job) <= _LONGEST_JOB else None
        if story is None:
            raise HTTPException(404, f"job {job}: tesched has never seen it")
        return HTMLResponse(
            rendered(
                "live_job.html",
                title=f"job {job}",
                job=job,
                state=story.state,
                headline=story.headline,
                facts=story.facts,
                blocks=story.blocks,
                drawing=story.drawing,
                version=version("tesched"),
            )
        )

    async def events(self, request: Request) -> Response:
        if request.method == "HEAD":
            # The answer has no body, and so ends.
            return Response(media_type="text/event-stream")
        return StreamingResponse(self._events(), media_type="text/event-stream")

    async def _events(self) -> AsyncIterator[str]:
        """Yield an event at first, and whenever the page is out of date."""
        last, said_at = "", 0.0
        while not self._ending():
            event = await run_in_threadpool(self._event)
            if event != last:
                last, said_at = event, time.monotonic()
                yield event
            elif time.monotonic() - said_at > ALIVE_S:
                said_at = time.monotonic()
                yield ": alive\n\n"
            await asyncio.sleep(EVERY_S)

    def _event(self) -> str:
        try:
            pulse = self._source.pulse()
        except StoreError:
            return "event: trouble\ndata: {}\n\n"
        return f"event: cycle\ndata: {json.dumps({'cycle': pulse.cycle, 'state': pulse.state})}\n\n"


def _no_store(_request: Request, error: Exception) -> Response:
    return _error(503, "The state store cannot be read", str(error))


def _refused(_request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise TypeError(f"{type(error).__name__} is no HTTP error") from error
    return _error(error.status_code, f"{error.status_code}", error.detail, error.headers)


def _error(status: int, title: str, said: str, headers: object = None) -> Response:
    text = rendered("live_error.html", title=title, said=said, version=version("tesched"))
    return HTMLResponse(text, status_code=status, headers=dict(headers) if isinstance(headers, dict) else None)


class _Headers:
    """Gives each answer the headers that forbid what the page does not need."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self._app(scope, receive, with_headers)


class _Token:
    """Asks for the token, where there is one: as the password of Basic, which browsers ask for, or as Bearer."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._token is not None and not self._is_right(Headers(scope=scope)):
            answer = PlainTextResponse(
                "the token is needed: as the password, or as Authorization: Bearer\n",
                status_code=401,
                headers={"WWW-Authenticate": 'Basic realm="tesched", charset="UTF-8"'},
            )
            await answer(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_right(self, headers: Headers) -> bool:
        given = [said.encode("latin-1", "replace") for said in _tokens(headers.get("authorization", ""))]
        return any(secrets.compare_digest(one, (self._token or "").encode()) for one in given)


def _tokens(said: str) -> Iterator[str]:
    """Yield the token that an Authorization header has; none where it has none."""
    scheme, _, rest = said.partition(" ")
    if scheme.lower() == "bearer":
        yield rest.strip()
    elif scheme.lower() == "basic":
        try:
            yield base64.b64decode(rest, validate=True).decode("latin-1").partition(":")[2]
        except (binascii.Error, ValueError):
            return
