"""The rules of the live page that `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_APP, _COMMAND = "cli/tesched_cli/web/app.py", "cli/tesched_cli/web/command.py"
_CONTENT, _DRAWING = "cli/tesched_cli/web/content.py", "cli/tesched_cli/web/drawing.py"
_TEMPLATING, _TIMELINE = "sim/tesched_sim/reports/templating.py", "db/tesched_db/timeline.py"

WEB_MUTATIONS = (
    Mutation("web: text is escaped", _TEMPLATING, "autoescape=True", "autoescape=False"),
    Mutation("web: and made visible", _TEMPLATING, "finalize=_shown", "finalize=None"),
    Mutation("web: a Host header is checked", _APP, "allowed_hosts=list(hosts)", 'allowed_hosts=["*"]'),
    Mutation("web: a token is checked", _APP, "and not self._is_right(Headers(scope=scope))", "and False"),
    Mutation("web: and as a whole", _APP, "secrets.compare_digest(one, ", "one.startswith("),
    Mutation("web: answers forbid what is not needed", _APP, "update(HEADERS)", "update({})"),
    Mutation("web: a stream ends with the server", _APP, "while not self._ending():", "while True:"),
    Mutation("web: other hosts need a token", _COMMAND, "if not is_inside and not has_token:", "if False:"),
    Mutation(
        "web: without a host it is all of this host's addresses",
        "daemon/tesched_daemon/metrics/endpoint.py",
        "return bound_port(where, BACKLOG)",
        "return socket.create_server(socket.getaddrinfo(where.host, where.port)[0][4][:2])",
    ),
    Mutation(
        "web: also where one socket can't have both versions",
        "daemon/tesched_daemon/job_reports/socket.py",
        'where.host or "0.0.0.0", where.port',
        "where.host, where.port",
    ),
    Mutation(
        "report socket: what has come is read before a client is late",
        "daemon/tesched_daemon/job_reports/socket.py",
        "                self._hear(self._clients[descriptor])\n            self._send_away_who_is_late()\n",
        "                self._send_away_who_is_late()\n                self._hear(self._clients[descriptor])\n",
    ),
    Mutation("web: others may not read the token", _COMMAND, "if mode & 0o007:", "if False:"),
    Mutation("web: a page has the cycle of its event", _CONTENT, "return pulse is None or ", "return True or "),
    Mutation("web: runs that overlap have lanes", _DRAWING, "if until - slack <= start:", "if True:"),
    Mutation("web: the end of a run is Slurm's", _DRAWING, "min(victim.left_at, end)", "victim.left_at"),
    Mutation("web: old runs are not read", _TIMELINE, "run.end is not None and run.end < since", "False"),
    Mutation("web: mode shadow preempts no job", _TIMELINE, ".where(lately, given)", ".where(lately)"),
)
