"""The submission hook, run unmodified by Lua 5.1 without a slurmctld: its C library is called from Python.

slurmctld's part is a table for each job, and a socket that takes each poke. Lua's steps are counted, and a run that
takes too many is ended: the hook has slurmctld's locks, so how long it may take is a rule of its own.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import json
import time
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tesched_core.intake.class_rules import Classification
from tesched_core.model.decision import Admission, SubmittedTe
from tesched_daemon.admission_file import text_of

_TEXT = (Path(__file__).parents[1] / "systemd" / "job_submit.lua").read_text()
_LAST_LINE = "return slurm.SUCCESS\n"
NO_VAL, NO_VAL16 = 4294967294, 65534
#: Lua's steps after which a run is ended: a second of slurmctld's, or so
MOST_STEPS = 20_000_000
_EACH = 1000
_SLURMCTLD = """
local steps, most = 0, %d
debug.sethook(function()
    steps = steps + %d
    if steps > most then error("too many steps") end
end, "", %d)
function taken_steps() return steps end
pokes, reads = 0, 0
function slurmctlds(fields)
    return setmetatable({}, { __newindex = function(_, name, value) fields[name] = value end,
        __index = function(_, name) reads = reads + 1; return fields[name] end })
end
package.preload["posix.sys.socket"] = function()
    return { AF_UNIX = 1, SOCK_DGRAM = 2, socket = function() return 3 end,
        sendto = function(_, said) pokes = pokes + 1; return #said end }
end
package.preload["posix.fcntl"] = function() return { fcntl = function() end } end
package.preload["posix.unistd"] = function() return { close = function() end } end
package.preload["posix.errno"] = function() return { EAGAIN = 11 } end
package.preload["posix.sys.time"] = function()
    return { gettimeofday = function() return { tv_sec = os.time(), tv_usec = 0 } end }
end
slurm = { SUCCESS = 0, ESLURM_ACCOUNTING_POLICY = 2050, log_info = function() end,
    log_user = function(said) told = said end }
"""


class Answer(NamedTuple):
    """What the hook makes of a job."""

    refused: bool
    held: bool
    #: a change was put off
    later: bool
    #: times that the daemon was poked
    pokes: int
    steps: int
    #: fields that it has read
    reads: int


def _library() -> ctypes.CDLL:
    name = ctypes.util.find_library("lua5.1")
    if name is None:
        pytest.skip("liblua5.1 is not installed")
    library = ctypes.CDLL(name)
    library.luaL_newstate.restype = ctypes.c_void_p
    library.lua_tolstring.restype = ctypes.c_void_p
    return library


def run(script: str, admission: Path) -> str:
    """Run this Lua behind the hook's, and return the text that it returns."""
    lua = _library()
    state = ctypes.c_void_p(lua.luaL_newstate())
    try:
        lua.luaL_openlibs(state)
        code = (_SLURMCTLD % (MOST_STEPS, _EACH, _EACH) + _body(admission) + script).encode("utf-8", "surrogateescape")
        failed = lua.luaL_loadbuffer(state, code, ctypes.c_size_t(len(code)), b"hook") or lua.lua_pcall(state, 0, 1, 0)
        size = ctypes.c_size_t()
        at = lua.lua_tolstring(state, -1, ctypes.byref(size))
        answer = ctypes.string_at(at, size.value).decode("utf-8", "replace") if at else ""
    finally:
        lua.lua_close(state)
    if failed:
        raise AssertionError(answer)
    return answer


def _body(admission: Path) -> str:
    if not _TEXT.endswith(_LAST_LINE):
        raise AssertionError("the hook ends otherwise")
    return _TEXT.removesuffix(_LAST_LINE).replace('"/run/tesched/admission"', quoted(str(admission)))


def quoted(text: str) -> str:
    """Return a text as Lua has it."""
    plain = text.isascii() and text.isprintable() and "\\" not in text and '"' not in text
    inner = text if plain else "".join(f"\\{byte:03d}" for byte in text.encode("utf-8", "surrogateescape"))
    return f'"{inner}"'


def table(fields: Mapping[str, Any]) -> str:
    """Return a table as Lua has it."""
    return "{" + ", ".join(f"[{quoted(name)}] = {_value(value)}" for name, value in fields.items()) + "}"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return table(value)
    return quoted(value) if isinstance(value, str) else json.dumps(value)


#: a job's description as sbatch leaves it
PLAIN: Mapping[str, Any] = {
    "priority": NO_VAL,
    "immediate": 0,
    "time_limit": NO_VAL,
    "time_min": NO_VAL,
    "min_nodes": NO_VAL,
    "min_cpus": NO_VAL,
    "user_name": "ada",
    "script": "#!/bin/sh\n",
}
#: a change of a job as scontrol leaves it (22.05): most numbers have a value of their own for "as it was"
UNCHANGED: Mapping[str, Any] = {
    **dict.fromkeys(("priority", "nice", "time_limit", "time_min", "min_nodes", "max_nodes", "min_cpus"), NO_VAL),
    **dict.fromkeys(("max_cpus", "num_tasks", "pn_min_tmp_disk", "delay_boot", "req_switch", "wait4switch"), NO_VAL),
    **dict.fromkeys(("site_factor", "cpu_freq_min", "cpu_freq_max", "cpu_freq_gov"), NO_VAL),
    **dict.fromkeys(("contiguous", "cores_per_socket", "cpus_per_task", "mail_type", "ntasks_per_core"), NO_VAL16),
    **dict.fromkeys(("ntasks_per_tres", "ntasks_per_gpu", "ntasks_per_node", "ntasks_per_socket"), NO_VAL16),
    **dict.fromkeys(("pn_min_cpus", "reboot", "requeue", "shared", "oversubscribe", "sockets_per_node"), NO_VAL16),
    "threads_per_core": NO_VAL16,
    "begin_time": 0,
    "end_time": 0,
    "bitflags": 503316480,
    "immediate": 0,
    "power_flags": 0,
}
PARTITIONS: Mapping[str, Any] = {
    "main": {"flag_default": 1, "max_time": NO_VAL + 1},
    "debug": {"flag_default": 0, "max_time": 10},
}


class Hook:
    """The hook beside an admission file, which a test writes in the daemon's place."""

    def __init__(
        self, folder: Path, classes: Classification, *, most: int = 0, until: float = 0.0, uids: tuple[int, ...] = ()
    ) -> None:
        """`most` is the number of TE jobs that a user may have; 0: any. TE jobs start by themselves until `until`."""
        self._path = folder / "admission"
        now = time.time()
        submitted = SubmittedTe(most=most, by_user={}) if most else None
        admission = Admission(until=until, most_s=60.0, submitted=submitted)
        self._path.write_text(text_of(admission, classes, now + 1000, uids, now=now))

    def submits(self, **fields: Any) -> Answer:
        """Return what it makes of a job that is submitted with these fields."""
        return self._answer(
            f"local job, partitions = slurmctlds({table({**PLAIN, **fields})}), {table(PARTITIONS)}\n"
            "local rc = slurm_job_submit(job, partitions, 1000)\n"
        )

    def changes(self, job: Mapping[str, Any], *, uid: int = 1000, **fields: Any) -> Answer:
        """Return what it makes of a user's change of a pending job."""
        record = {"job_state": 0, "priority": 100, "user_name": "ada", "time_limit": 1, "script": "#!/bin/sh\n"}
        return self._answer(
            f"local job = slurmctlds({table({**UNCHANGED, **fields})})\n"
            f"local rc = slurm_job_modify(job, {table({**record, **job})}, {table(PARTITIONS)}, {uid})\n"
        )

    def value(self, expression: str) -> str:
        """Return a value of the hook's own, as Lua writes it."""
        return self._run(f"return tostring({expression})")

    def _answer(self, script: str) -> Answer:
        # Lua 5.1 has %s for texts alone.
        held, later = "tostring(job.priority == 0)", "tostring((job.begin_time or 0) > os.time())"
        end = f"return string.format('%d %s %s %d %d %d', rc, {held}, {later}, pokes, taken_steps(), reads)"
        code, held, later, pokes, steps, reads = self._run(script + end).split()
        return Answer(code != "0", held == "true", later == "true", int(pokes), int(steps), int(reads))

    def _run(self, script: str) -> str:
        return run(script, self._path)


#: a time at which no TE job is held
OPEN = inf
