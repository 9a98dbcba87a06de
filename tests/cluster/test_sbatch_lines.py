"""What a real sbatch takes from a script's option lines (`sbatch -v`) is what is read of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tesched_slurm.sbatch_options import options_in
from tesched_testcluster.local import LocalCluster

from tests.unit.slurm.sbatch_scripts import ESCAPED, SCRIPTS

pytestmark = pytest.mark.slurm


@pytest.mark.gate
def test_what_sbatch_takes_is_read(cluster: LocalCluster, tmp_path: Path) -> None:
    path, differs = tmp_path / "job.sh", {}
    for lines, _ in (*SCRIPTS, ESCAPED):
        path.write_text(script := f"#!/bin/sh\n{lines}true\n")
        said = cluster.run("sbatch", "--test-only", "-v", str(path), check=False).stderr
        first = said.partition("end of defined options")[0]
        taken = dict(re.findall(r"^sbatch: (comment|job-name|ntasks) +: (.*)$", first, re.MULTILINE))
        read = {one.name: one.value for one in options_in(script)}
        is_refused = not taken and "Invalid directive found in batch script: b" in said
        if taken != read and not (is_refused and lines == ESCAPED[0]):
            differs[lines] = taken, read
    assert not differs
