"""What sbatch and scontrol take of a user: each field with what makes values of it, extremes before all."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from tesched_testcluster.harness.hostile import text as hostile_text

Make: TypeAlias = Callable[[random.Random], str]

#: around every width that a number may have on its way
NUMBERS = tuple(
    sorted({0, 1, 2, *(2**bits + more for bits in (7, 8, 15, 16, 31, 32, 53, 63, 64) for more in (-3, -2, -1, 0, 1))})
)
_ODD_NUMBERS = ("-1", "-9223372036854775808", "1e9", "0x7fffffff", "007", "+5", "", " 5", "5-1", "1-4294967293", "NaN")
#: what tesched reads of comments, at its extremes
WORDS = (
    "te", "be", "te be", "grace=0", "grace=600", "grace=99999999999999999999", "grace=-1", "grace=1e308", "grace=nan",
    "signal=USR1", "signal=B:USR1 grace=600", "signal=full:KILL", "signal=B:99999", "signal=", "elastic", "elastic=1",
    "weight=1e308", "weight=-1", "workload=resnet50", f"workload={'x' * 800}", "run=1:00", "run=99999999-00:00:00",
    "expect=60", "exit0=again", "exit0=finished", "tesched:yield=*,prio=0,grace=0",
    "tesched: preempted 2026-01-01T00:00 for a trial-and-error job; put back in the queue; 1 of 1",
)  # fmt: skip
_TIMES = (
    "0", "1", "0:01", "0:59", "1:00:00", "5", "60", "1-0", "365-00:00:00", "99999-23:59:59", "INFINITE", "UNLIMITED",
    "2147483647", "4294967294", "35791394", "-1", "1:2:3:4", "00:00:00",
)  # fmt: skip
_BEGINS = (
    "now", "now+1", "now+60", "now+2147483647", "now+4294967295minutes", "tomorrow", "midnight", "1970-01-02",
    "2038-01-19T03:14:08", "9999-12-30", "00:00", "now-1",
)  # fmt: skip
_ARRAYS = (
    "0", "0-9", "0-1000", "0-20000", "1-3,7,9", "5,5,5", "0-1000:7%2", "0-19999%1", "0-99%0", "0-9%4294967295",
    "20000", "1-4294967293", "-1", "0-", ",".join(str(2 * number) for number in range(400)),
)  # fmt: skip
_DEPENDENCIES = (
    "singleton", "afterok:{own}", "afterany:{other}", "after:{own}+4294967295", "afternotok:{own}?afterok:{other}",
    "aftercorr:{own}", "afterok:4294967293", "afterburstbuffer:{own}", "expand:{own}",
    ":".join(["afterany", *["{own}"] * 40]),
)  # fmt: skip
_GRES = (
    "gpu", "gpu:0", "gpu:1", "gpu:2", "gpu:8", "gpu:-1", "gpu:9999999999999999999", "gpu:18446744073709551615",
    "gpu:a100:1", "gpu:1,gpu:2", "none", "help", "gpu:1k", "gpu::1", "gpu:1,craynetwork:1", ",".join(["gpu:1"] * 60),
)  # fmt: skip
_LICENSES = (
    "matlab",
    "matlab:1",
    "matlab:4",
    "matlab:5",
    "matlab:4294967295",
    "fluent:1,matlab:1",
    "none",
    "matlab|fluent",
    "x@y:1",
)
_FEATURES = (
    "fast", "big", "fast&big", "fast|big", "[fast|big]", "[fast*1&big*1]", "fast*2",
    "(fast|big)&fast", "none", "fast&", "(" * 300 + "fast" + ")" * 300, "|".join(["fast"] * 150),
    "&".join(["fast*1"] * 100),
)  # fmt: skip
_NODES = (
    "n1",
    "n[1-2]",
    "n[1-6]",
    "n1,n1,n1",
    "n[1-99999999]",
    "n[1-",
    "n0",
    "@all",
    "ALL",
    "n[1-3,5]",
    ",".join(["n1"] * 150),
)
FLAGS = (
    "--exclusive", "--exclusive=user", "--oversubscribe", "--overcommit",
    "--contiguous", "--no-requeue", "--requeue", "--hold", "--spread-job", "--use-min-nodes", "--wait-all-nodes=1",
    "--no-kill", "--reboot", "--kill-on-invalid-dep=yes", "--kill-on-invalid-dep=no", "--ignore-pbs",
    "--open-mode=append", "--get-user-env",
)  # fmt: skip


def _number(rng: random.Random) -> str:
    if rng.random() < 0.25:
        return rng.choice(_ODD_NUMBERS)
    return str(rng.choice(NUMBERS)) + rng.choice(("", "", "", "K", "M", "G", "T"))


def _small(rng: random.Random) -> str:
    return str(rng.choice((0, 1, 1, 1, 2, 3, 8, 32, 33)))


def _either(*makes: Make) -> Make:
    return lambda rng: rng.choice(makes)(rng)


def _one_of(values: Sequence[str]) -> Make:
    return lambda rng: rng.choice(values)


def _text(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.4:
        return " ".join(rng.sample(WORDS, rng.randint(1, 3)))
    if kind < 0.5:
        return rng.choice(("x", "é", "\n", "a=b ", "JobId=1 ")) * rng.choice((1, 100, 200))
    # No argument of a program can hold it.
    return hostile_text(rng, Path("/nonexistent/proof")).replace("\0", "")


_any_number = _either(_number, _small)
_binding = _one_of(
    ("none", "verbose,closest", "map_gpu:0,1", "single:4294967295", "mask_gpu:0xffffffffffffffff", "per_task:0")
)
#: each of sbatch's options with a value that changes the job
OPTIONS: Mapping[str, Make] = {
    "account": _one_of(("lab", "LAB", "vip", "")),
    "array": _one_of(_ARRAYS),
    "batch": _one_of(_FEATURES),
    "bb": _text,
    "begin": _one_of(_BEGINS),
    "chdir": lambda rng: "/" + _text(rng),
    "cluster-constraint": _one_of(_FEATURES),
    "clusters": _one_of(("tesched", "all", "x")),
    "comment": _text,
    "constraint": _one_of(_FEATURES),
    "core-spec": _any_number,
    "cores-per-socket": _any_number,
    "cpu-freq": _either(_number, _one_of(("low", "high-high:userspace"))),
    "cpus-per-gpu": _any_number,
    "cpus-per-task": _any_number,
    "deadline": _one_of(_BEGINS),
    "delay-boot": _any_number,
    "dependency": _one_of(_DEPENDENCIES),
    "distribution": _one_of(("block", "cyclic:cyclic", "plane=65535", "arbitrary", "x")),
    "error": lambda rng: "/" + _text(rng),
    "exclude": _one_of(_NODES),
    "export": _one_of(("NONE", "ALL", "A=b", "A='x\ny'")),
    "extra-node-info": _one_of(("1", "2:2:2", "*:*:*", "65535:65535:65535")),
    "gpu-bind": _binding,
    "gpu-freq": _one_of(("low", "medium,memory=high", "4294967295", "verbose")),
    "gpus": _any_number,
    "gpus-per-node": _any_number,
    "gpus-per-socket": _any_number,
    "gpus-per-task": _any_number,
    "gres": _one_of(_GRES),
    "gres-flags": _one_of(("enforce-binding", "disable-binding", "x")),
    "hint": _one_of(("compute_bound", "nomultithread", "x")),
    "input": lambda rng: "/" + _text(rng),
    "job-name": _text,
    "licenses": _one_of(_LICENSES),
    "mail-type": _one_of(("ALL", "NONE", "END")),
    "mail-user": _text,
    "mcs-label": _text,
    "mem": _any_number,
    "mem-bind": _one_of(("none", "local", "mask_mem:0xff")),
    "mem-per-cpu": _any_number,
    "mem-per-gpu": _any_number,
    "mincpus": _any_number,
    "network": _text,
    "nice": _any_number,
    "nodelist": _one_of(_NODES),
    "nodes": _either(_any_number, _one_of(("1-2", "2-1", "1-4294967295", "1,2,3"))),
    "ntasks": _any_number,
    "ntasks-per-core": _any_number,
    "ntasks-per-gpu": _any_number,
    "ntasks-per-node": _any_number,
    "ntasks-per-socket": _any_number,
    "output": lambda rng: "/" + _text(rng),
    "partition": _one_of(("main", "debug", "main,debug", "x")),
    "power": _text,
    "propagate": _one_of(("ALL", "NONE", "CORE,STACK", "x")),
    "prefer": _one_of(_FEATURES),
    "priority": _any_number,
    "profile": _one_of(("None", "All", "Task,Energy")),
    "qos": _one_of(("normal", "debug", "background", "x")),
    "reservation": _text,
    "signal": _either(_one_of(("USR1@60", "B:USR1@65535", "R:KILL@1", "B:99@1", "B:TERM", "@1", "x")), _number),
    "sockets-per-node": _any_number,
    "switches": _one_of(("1", "1@0", "4294967295@365-0", "x@y")),
    "thread-spec": _any_number,
    "threads-per-core": _any_number,
    "time": _one_of(_TIMES),
    "time-min": _one_of(_TIMES),
    "tmp": _any_number,
    "wckey": _text,
    "container": _text,
    "extra": _text,
    "oom-kill-step": _one_of(("0", "1", "65535")),
    "resv-ports": _any_number,
    "tres-bind": _one_of(("gres/gpu:closest", "gres/gpu:single:65535", "x")),
    "tres-per-task": _one_of(("cpu:1", "gres/gpu:1", "cpu=65535", "license/matlab:9")),
}
#: those that sbatch 22.05 does not know, and those that 26.05 knows no more: one has sbatch refuse all the others
NOT_AFTER_2205 = frozenset({"power"})
AFTER_2205 = frozenset({"extra", "oom-kill-step", "resv-ports", "tres-bind", "tres-per-task"})
#: what `scontrol update jobid=…` takes
UPDATES: Mapping[str, Make] = {
    "Account": _one_of(("lab", "vip")),
    "AdminComment": _text,
    "ArrayTaskThrottle": _any_number,
    "BurstBuffer": _text,
    "Clusters": _text,
    "Comment": _text,
    "Contiguous": _one_of(("yes", "no")),
    "CoreSpec": _any_number,
    "CpusPerTask": _any_number,
    "Deadline": _one_of(_BEGINS),
    "DelayBoot": _any_number,
    "Dependency": _one_of(_DEPENDENCIES),
    "EndTime": _one_of(_BEGINS),
    "ExcNodeList": _one_of(_NODES),
    "Extra": _text,
    "Features": _one_of(_FEATURES),
    "Gres": _one_of(_GRES),
    "JobName": _text,
    "Licenses": _one_of(_LICENSES),
    "MailUser": _text,
    "MCSLabel": _text,
    "MinCPUsNode": _any_number,
    "MinMemoryCPU": _any_number,
    "MinMemoryNode": _any_number,
    "MinTmpDiskNode": _any_number,
    "Name": _text,
    "Nice": _any_number,
    "NodeList": _one_of(_NODES),
    "NumCPUs": _any_number,
    "NumNodes": _any_number,
    "NumTasks": _any_number,
    "OverSubscribe": _one_of(("yes", "no")),
    "Partition": _one_of(("main", "debug", "main,debug")),
    "Prefer": _one_of(_FEATURES),
    "Priority": _any_number,
    "QOS": _one_of(("normal", "debug", "background")),
    "Reboot": _one_of(("yes", "no")),
    "ReqCores": _any_number,
    "ReqNodeList": _one_of(_NODES),
    "ReqSockets": _any_number,
    "ReqThreads": _any_number,
    "Requeue": _one_of(("0", "1", "2")),
    "ReservationName": _text,
    "SiteFactor": _any_number,
    "StartTime": _one_of(_BEGINS),
    "StdOut": _text,
    "Switches": _one_of(("1", "1@0", "4294967295")),
    "TasksPerNode": _any_number,
    "ThreadSpec": _any_number,
    "TimeLimit": _either(_one_of(_TIMES), _one_of(("+60", "-60"))),
    "TimeMin": _one_of(_TIMES),
    "UserID": _one_of(("root", "0")),
    "WCKey": _text,
    "WorkDir": _text,
}
#: what users do with own jobs, and try with others' and with the cluster
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "hold": ("scontrol", "hold", "{own}"),
    "release": ("scontrol", "release", "{own}"),
    "uhold": ("scontrol", "uhold", "{own}"),
    "requeue": ("scontrol", "requeue", "{own}"),
    "requeuehold": ("scontrol", "requeuehold", "State=SpecialExit", "{own}"),
    "suspend": ("scontrol", "suspend", "{own}"),
    "resume": ("scontrol", "resume", "{own}"),
    "top": ("scontrol", "top", "{own}"),
    "notify": ("scontrol", "notify", "{own}", "JobId=1 JobState=RUNNING"),
    "cancel": ("scancel", "{own}"),
    "kill": ("scancel", "--full", "--signal=KILL", "{own}"),
    "signal": ("scancel", "--batch", "--signal=USR1", "{own}"),
    "stop": ("scancel", "--full", "--signal=STOP", "{own}"),
    "cancel another's": ("scancel", "{other}"),
    "hold another's": ("scontrol", "hold", "{other}"),
    "change another's": ("scontrol", "update", "jobid={other}", "comment=te"),
    "drain": ("scontrol", "update", "nodename=n1", "state=drain", "reason=x"),
    "close": ("scontrol", "update", "partitionname=debug", "state=down"),
    "reserve": ("scontrol", "create", "reservation", "nodes=ALL", "starttime=now", "duration=60", "users=root"),
    "debug": ("scontrol", "setdebug", "debug5"),
    "end": ("scontrol", "shutdown"),
}
#: scripts, as text: what sbatch and the daemon read of them
SCRIPTS: Mapping[str, str] = {
    "sleeps": "#!/bin/sh\nexec sleep 1000\n",
    "ends": "#!/bin/sh\nexec sleep 1\n",
    "fails": "#!/bin/sh\nexit 1\n",
    "comes back": "#!/bin/sh\nexit 99\n",
    "ignores signals": "#!/bin/sh\ntrap '' TERM USR1 CONT\nfor i in 1 2 3 4 5 6 7 8 9; do sleep 60; done\n",
    "puts itself back": "#!/bin/sh\ntrap 'scontrol requeue $SLURM_JOB_ID' USR1\nsleep 1000 & wait\n",
    "line feeds": "#!/bin/sh\n# This script was created by sbatch --wrap.\n\nexec sleep 1000" + "\n" * 10**6 + "x",
    "megabytes": f"#!/bin/sh\n#SBATCH --signal=USR1@60\nexec sleep 1000\n#{'x' * 4_000_000}\n",
    "options": "#!/bin/sh\n" + "#SBATCH --signal=B:USR1@60\n" * 20_000 + "exec sleep 1000\n",
    "quotes": "#!/bin/sh\n#SBATCH --comment=" + "\\\"'" * 20_000 + "\nexec sleep 1000\n",
    "comments": "#!/bin/sh\n" + "#\n" * 500_000 + "exec sleep 1000\n",
    "null": "#!/bin/sh\nexec sleep 1000\n\x1b[2J\u202e\n",
}
