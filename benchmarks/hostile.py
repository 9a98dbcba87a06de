"""What users type, read back: jobs with hostile text in every field, and how many of them are read otherwise.

`python -m benchmarks.hostile --cases 20000 --seed 1` submits that many jobs (`tesched_testcluster.harness.hostile`) to
a real Slurm that it starts. It ends with status 1 if anything is read otherwise. In the test image:
`python -m tesched_testcluster docker run -- python -m benchmarks.hostile`.
"""

from __future__ import annotations

import argparse
import sys

from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.hostile import run
from tesched_testcluster.local import LocalCluster


def main() -> None:
    """Submit, look, compare, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    definition = ClusterDefinition(
        groups=(NodeGroup(count=4),),
        settings={"MaxJobCount": str(arguments.cases + 1000)},
    )
    with LocalCluster(definition) as cluster:
        found = run(cluster, arguments.cases, arguments.seed, print)
    for each in found[:50]:
        print(each)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
