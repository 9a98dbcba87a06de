"""The lines of docs/reference/state-store.md that forbid --no-requeue in a partition, in a real slurmctld."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tesched_testcluster.definition import ClusterDefinition

from tests.cluster.conftest import MakeCluster

pytestmark = pytest.mark.slurm

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "state-store.md"


def snippet() -> str:
    """Return the function that the document shows."""
    shown = re.compile(r"^    (function slurm_job_submit.*?^    end)$", re.MULTILINE | re.DOTALL)
    (found,) = shown.findall(DOCUMENT.read_text())
    return str(found)


def test_a_job_that_cannot_be_requeued_is_refused_in_the_partition(make_cluster: MakeCluster) -> None:
    modify = "function slurm_job_modify() return slurm.SUCCESS end\nreturn slurm.SUCCESS\n"
    definition = replace(
        ClusterDefinition(),
        settings={"JobSubmitPlugins": "lua"},
        files={"job_submit.lua": f"{snippet()}\n{modify}".replace('"be"', '"main"')},
    )
    cluster = make_cluster(definition)
    for options in ((), ("--requeue",)):
        assert cluster.sbatch(*options, "-p", "main", wrap="true")
    refused = cluster.run("sbatch", "--no-requeue", "-p", "main", "--wrap", "true", check=False)
    assert refused.returncode != 0
    assert "--no-requeue is not allowed" in refused.stderr
