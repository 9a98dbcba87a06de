"""Requests that `tesched ask` reads from sbatch's options, beside the records of the same jobs on a real Slurm."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from tesched_core.model.cluster import Request
from tesched_core.model.snapshot import Snapshot
from tesched_daemon.submission.request import request_of
from tesched_slurm.commands_observer import CommandsObserver
from tesched_slurm.run_command import Commands
from tesched_slurm.sbatch_options import read_options
from tesched_testcluster.local import LocalCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

FORMS = """
-n4
-N2
-N2 -n4
-n3 -c2
-c3
-n5 -N2
-N1-3
-N2-4 -n8
-n2 -N4
-n4 -c2 --mem=4G -N2
--mincpus=4
--ntasks-per-node=4
--ntasks-per-node=2 -N2
--ntasks-per-node=2 -n4
--gres=gpu:2
--gres=gpu
--gpus=2
--gpus=4 -N2
--gpus-per-node=2
-n2 --gpus-per-task=1
--gres=gpu:1 --cpus-per-gpu=2
--gpus=1 --mem-per-gpu=1G
-n8 --gpus-per-node=4 -N2
--mem=2G
--mem=0
--mem=500K
--mem-per-cpu=500
--exclusive
-N2 --exclusive
--exclusive=user
-s
-w n1
-w n1,n2
-w n[1-3]
-x n1,n2
--tmp=100
--array=0-9%2
""".strip().split("\n")


def test_each_form_has_the_record_that_slurm_gives_it(cluster: LocalCluster) -> None:
    jobs = {cluster.sbatch("--hold", *form.split(), wrap="true"): form for form in ("", *FORMS)}
    seen = CommandsObserver(commands=Commands(slurm_conf=str(cluster.slurm_conf))).observe()
    assert isinstance(seen, Snapshot)
    wrong = {}
    for job_id, job in seen.jobs.items():
        options, _ = read_options(jobs[int(job_id)].split())
        request, unread = request_of({one.name: one for one in options}, seen.partitions["main"], seen.settings)
        # What Slurm counts of memory is known once it has the job.
        real = replace(job.request, mem_counted_mib=None)
        wrong[jobs[int(job_id)]] = (
            *unread,
            *(one.name for one in fields(Request) if getattr(real, one.name) != getattr(request, one.name)),
        )
    assert {form: names for form, names in wrong.items() if names} == {}
    assert len(wrong) == 1 + len(FORMS)
