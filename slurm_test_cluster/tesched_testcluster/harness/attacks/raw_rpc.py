"""Submission by Slurm's own library, without sbatch: any number in any field, as a user's own program may send it.

sbatch checks much of what a user types before it sends it; slurmctld takes more, such as a count of restarts. The
library is called by a process of the user's own, which this file is, too: `python raw_rpc.py` with JSON on its standard
input. The fields' places in job_desc_msg_t are those of Slurm's slurm.h on 64 bits, by release.
"""

from __future__ import annotations

import ctypes
import json
import os
import pwd
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tesched_testcluster.local import LocalCluster

#: releases whose fields are known
RELEASES = ((22, 5), (26, 5))
#: bytes of the structure, and where a submission's answer has the job id, by release
_SIZES, _JOB_ID = (880, 952), (0, 8)
#: bytes of each number, and its place by release
NUMBERS: Mapping[str, tuple[int, int, int]] = {
    "begin_time": (8, 80, 88),
    "bitflags": (8, 88, 96),
    "boards_per_node": (2, 724, 804),
    "contiguous": (2, 128, 136),
    "core_spec": (2, 144, 168),
    "cores_per_socket": (2, 730, 810),
    "cpu_bind_type": (2, 160, 184),
    "cpu_freq_gov": (4, 172, 196),
    "cpu_freq_max": (4, 168, 192),
    "cpu_freq_min": (4, 164, 188),
    "cpus_per_task": (2, 704, 784),
    "deadline": (8, 192, 216),
    "delay_boot": (4, 200, 224),
    "end_time": (8, 216, 240),
    "het_job_offset": (4, 316, 340),
    "kill_on_node_fail": (2, 336, 376),
    "max_cpus": (4, 712, 792),
    "max_nodes": (4, 720, 800),
    "mem_bind_type": (2, 384, 432),
    "min_cpus": (4, 708, 788),
    "min_nodes": (4, 716, 796),
    "nice": (4, 416, 464),
    "ntasks_per_board": (2, 740, 820),
    "ntasks_per_core": (2, 738, 818),
    "ntasks_per_node": (2, 734, 814),
    "ntasks_per_socket": (2, 736, 816),
    "ntasks_per_tres": (2, 742, 822),
    "num_tasks": (4, 420, 468),
    "open_mode": (1, 424, 474),
    "overcommit": (1, 442, 490),
    "plane_size": (2, 456, 504),
    "pn_min_cpus": (2, 744, 824),
    "pn_min_memory": (8, 752, 832),
    "pn_min_tmp_disk": (4, 760, 844),
    "priority": (4, 472, 520),
    "profile": (4, 476, 524),
    "reboot": (2, 488, 536),
    "req_switch": (4, 776, 856),
    "requeue": (2, 520, 568),
    "restart_cnt": (2, 504, 552),
    "shared": (2, 586, 642),
    "site_factor": (4, 588, 644),
    "sockets_per_board": (2, 726, 806),
    "sockets_per_node": (2, 728, 808),
    "task_dist": (4, 616, 696),
    "threads_per_core": (2, 732, 812),
    "time_limit": (4, 620, 700),
    "time_min": (4, 624, 704),
    "wait4switch": (4, 832, 904),
    "wait_all_nodes": (2, 684, 764),
    "warn_flags": (2, 686, 766),
    "warn_signal": (2, 688, 768),
    "warn_time": (2, 690, 770),
}
#: what every submission has
_USER = {"user_id": (4, 680, 760), "group_id": (4, 312, 336), "env_size": (4, 268, 292)}
TEXTS: Mapping[str, tuple[int, int]] = {
    "array_inx": (56, 64),
    "comment": (120, 128),
    "dependency": (208, 232),
    "features": (288, 312),
    "licenses": (344, 384),
    "name": (400, 448),
    "partition": (448, 496),
    "req_nodes": (512, 560),
    "script": (536, 592),
    "std_out": (816, 888),
    "tres_per_node": (656, 736),
    "work_dir": (696, 776),
}
_ENVIRONMENT = (224, 248)
_SCRIPT = "#!/bin/sh\nexec sleep 3000\n"


class RawSubmissionError(Exception):
    """A submission that Slurm refused, or that could not be made; the message says why."""


def lacking(release: tuple[int, int] | None = None) -> str:
    """Say why there can be no such submission here, or to this release; empty if there can."""
    if release is not None and release not in RELEASES:
        return f"the fields of Slurm {release[0]}.{release[1]:02} are not known"
    return "" if _library() is not None and sys.maxsize > 2**32 else "there is no libslurmfull.so here"


def submit(cluster: LocalCluster, user: str, numbers: Mapping[str, int], **texts: str) -> int:
    """Submit a batch job as this user with these numbers and texts; return its id. Raises RawSubmissionError."""
    if why := lacking(cluster.release):
        raise RawSubmissionError(why)
    made = {"script": _SCRIPT, "work_dir": str(cluster.shared), "std_out": "/dev/null", "name": "be", **texts}
    asked = {"user": user, "place": RELEASES.index(cluster.release), "numbers": dict(numbers), "texts": made}
    done = subprocess.run(
        [sys.executable, "-I", __file__],
        input=json.dumps(asked),
        env=cluster.env,
        cwd=cluster.shared,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode:
        raise RawSubmissionError((done.stderr.strip() or f"status {done.returncode}").splitlines()[-1])
    return int(done.stdout)


def _library() -> Path | None:
    return next(iter(Path("/usr/lib").glob("*/slurm-wlm/libslurmfull.so")), None)


def _submit(user: str, place: int, numbers: Mapping[str, int], texts: Mapping[str, str]) -> int:
    """Submit as this user, which the process becomes; return the job id."""
    slurm = ctypes.CDLL(str(_library()), mode=ctypes.RTLD_GLOBAL, use_errno=True)
    account = pwd.getpwnam(user)
    os.setgroups([])
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)
    slurm.slurm_init(None)
    described = ctypes.create_string_buffer(_SIZES[place])
    slurm.slurm_init_job_desc_msg(described)
    environment = (ctypes.c_char_p * 2)(b"PATH=/usr/bin:/bin", None)
    given = {"user_id": account.pw_uid, "group_id": account.pw_gid, "env_size": 1, "min_nodes": 1, **numbers}
    for name, value in given.items():
        size, *places = {**NUMBERS, **_USER}[name]
        at = places[place]
        ctypes.memmove(ctypes.byref(described, at), (value % 2 ** (8 * size)).to_bytes(size, "little"), size)
    kept = {name: ctypes.c_char_p(os.fsencode(text)) for name, text in texts.items()}
    pointers = {TEXTS[name][place]: ctypes.cast(text, ctypes.c_void_p).value for name, text in kept.items()}
    pointers[_ENVIRONMENT[place]] = ctypes.addressof(environment)
    for at, pointer in pointers.items():
        ctypes.memmove(ctypes.byref(described, at), (pointer or 0).to_bytes(8, "little"), 8)
    answer = ctypes.c_void_p()
    if slurm.slurm_submit_batch_job(described, ctypes.byref(answer)) or answer.value is None:
        slurm.slurm_strerror.restype = ctypes.c_char_p
        raise RawSubmissionError(slurm.slurm_strerror(ctypes.get_errno()).decode())
    return ctypes.c_uint32.from_address(answer.value + _JOB_ID[place]).value


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{_submit(**json.loads(sys.stdin.read()))}\n")
    except RawSubmissionError as refused:
        raise SystemExit(str(refused)) from None
