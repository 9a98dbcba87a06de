"""Rules of the service and of what an admin hears, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_SERVICE, _WIRING = "daemon/tesched_daemon/service.py", "daemon/tesched_daemon/wiring.py"
_COMMON = "cli/tesched_cli/common.py"
_CHECKS, _ENGINE = "daemon/tesched_daemon/config_checks.py", "db/tesched_db/engine.py"

SERVICE_MUTATIONS = (
    Mutation(
        "init: who owns a folder takes others' right away",
        "cli/tesched_cli/init.py",
        "ours = status.st_uid == os.geteuid() and ",
        "ours = False and ",
    ),
    Mutation(
        "init: another's folder is left as it is",
        "cli/tesched_cli/init.py",
        "ours = status.st_uid == os.geteuid() and ",
        "ours = ",
    ),
    Mutation(
        "init: a folder for all, such as /tmp, stays one",
        "cli/tesched_cli/init.py",
        " and not status.st_mode & stat.S_ISVTX",
        "",
    ),
    Mutation(
        "unit: the marks outlive the daemon",
        "systemd/tesched.service",
        "RuntimeDirectoryPreserve=yes",
        "RuntimeDirectoryPreserve=restart",
    ),
    Mutation(
        "limit: pokes are no RPCs",
        "daemon/tesched_daemon/rate_limited.py",
        "for kind, count in calls.items() if kind not in NO_RPCS)",
        "for count in calls.values())",
    ),
    Mutation(
        "limit: sacct is no RPC",
        "slurm/tesched_slurm/submit_line.py",
        "min(self.commands.timeout_s, SLURMDBD_TIMEOUT_S), calls=Counter())",
        "min(self.commands.timeout_s, SLURMDBD_TIMEOUT_S))",
    ),
    Mutation(
        "hook: SlurmUser is known once slurmctld is up",
        "daemon/tesched_daemon/wakeup_shares.py",
        "        self._learn()\n        return frozenset(self._hooks)",
        "        return frozenset(self._hooks)",
    ),
    Mutation(
        "ask: a word that is not read says nothing",
        "daemon/tesched_daemon/submission/asking.py",
        "if found.slurm is None and not found.because:",
        "if False:",
    ),
    Mutation(
        "ask: --quiet is spoken to",
        "daemon/tesched_daemon/submission/slurms_answer.py",
        "ask_slurm(without_quiet(said.given), text",
        "ask_slurm(said.given, text",
    ),
    Mutation(
        "ask: the account of this cluster",
        "daemon/tesched_daemon/submission/pretended.py",
        '(f"cluster={name}",)',
        "()",
    ),
    Mutation(
        "doctor: a Python that does not start",
        "daemon/tesched_daemon/doctor/plugin.py",
        'or not ended.out.startswith(b"begins")',
        "",
    ),
    Mutation(
        "pyslurm: nothing is kept of a process",
        "slurm/tesched_slurm/pyslurm_process.py",
        "self._end()  # which",
        "self._running.end()  # which",
    ),
    Mutation("watchdog: a wait is no hang", _SERVICE, '        notify(WATCHDOG="1")\n\n    @', "\n    @"),
    Mutation(
        "watchdog: a turn that hangs is one", _SERVICE, "            if self._turning:\n                return\n", ""
    ),
    Mutation(
        "watchdog: one that does not begin is one",
        _SERVICE,
        "                self._plan()\n                return\n        notify",
        "                self._plan()\n        notify",
    ),
    Mutation(
        "stop: no second signal ends it",
        _WIRING,
        "        signals.enter_context(service.signals())\n        service.run()\n",
        "        with service.signals():\n            service.run()\n",
    ),
    Mutation(
        "paths: a slurm.conf that is not there", _CHECKS, '("slurm.conf", unread_conf(conf), ', '("slurm.conf", "", '
    ),
    Mutation(
        "paths: sockets and files of the daemon",
        _CHECKS,
        "!= _RUNTIME and (why := has(path))",
        "== path and (why := has(path))",
    ),
    Mutation(
        "paths: the unit's own folder is there later", _CHECKS, "if text and path.parent != _RUNTIME and", "if text and"
    ),
    Mutation("paths: a program that is no file", _CHECKS, "    if not stat.S_ISREG(mode):", "    if False:"),
    Mutation("paths: a program without the right", _CHECKS, "if mode & 0o111 else", "if True else"),
    Mutation("store: a port that is no number", _ENGINE, "raise StoreError(_NO_PORT) from None", "raise"),
    Mutation("store: a port that is none", _ENGINE, "not 1 <= parsed.port <= 65_535", "parsed.port < 1"),
    Mutation("store: its name is without a password", _ENGINE, "lock_wait_s), shown(url)", "lock_wait_s), url"),
    Mutation(
        "input: a configuration that may not be read", _COMMON, "path_type=Path, readable=False", "path_type=Path"
    ),
    Mutation("input: no empty name", _COMMON, 'if value == "":', 'if value == "?":'),
    Mutation("input: ASCII's digits", _COMMON, 'r"([0-9]{1,9})([smhd]?)"', 'r"(\\d{1,9})([smhd]?)"'),
    Mutation("input: no pause of a thousand years", _COMMON, "if seconds > LONGEST_S:", "if False:"),
)
