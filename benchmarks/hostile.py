"""Whether a user can end, blind or steer the daemon: `python -m benchmarks.hostile`.

Three parts: known attacks, each on a real Slurm with a daemon of its own (--rows); three hostile users who submit and
change jobs at random beside an honest one (--soak); and jobs with hostile text in every field, read back by each client
(--cases). Without any of these options all run: 13 minutes for each client, and three for reading 20,000 jobs back. The
exit status is 1 if anything does not hold.

Attacks, site and rules are in `tesched_testcluster/harness/attacks`: `registry.py`, `site.py`, `soak.py`, `verdict.py`.
Users are this machine's own, such as daemon, bin and games, so it runs as root. On Slurm 26.05, in the test
image: `python -m tesched_testcluster docker run -- python -m benchmarks.hostile`.
"""

from __future__ import annotations

import sys

import click
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness import hostile
from tesched_testcluster.harness.attacks import soak as soaks
from tesched_testcluster.harness.attacks import verdict
from tesched_testcluster.harness.attacks.rows import ATTACKS, run_attacks
from tesched_testcluster.harness.slurm_clients import CLIENTS
from tesched_testcluster.local import LocalCluster

CASES = 20_000
#: of the clients that run here
NAMES = [str(one) for one in CLIENTS]


def read_back(cases: int, seed: int) -> bool:
    """Submit, poll, compare, print; say whether all is read as it was submitted."""
    definition = ClusterDefinition(groups=(NodeGroup(count=4),), settings={"MaxJobCount": str(cases + 1000)})
    with LocalCluster(definition) as cluster:
        found = hostile.run(cluster, cases, seed, print)
    for each in found[:50]:
        print(each)
    return not found


def soaked(plan: soaks.Plan) -> bool:
    """Soak a daemon and print the table; say whether all held."""
    seen = soaks.run(plan)
    for line in verdict.table(seen):
        print(line, flush=True)
    return verdict.holds(seen)


@click.command(help=__doc__)
@click.option("--rows", is_flag=True, help="Run the known attacks, a line each.")
@click.option("--row", "names", type=click.Choice(tuple(ATTACKS)), multiple=True, help="Run only these of them.")
@click.option("--soak", is_flag=True, help="Run the random users; print a table.")
@click.option("--seconds", type=click.FloatRange(1), default=600, show_default=True, help="The soak's.")
@click.option("--quiet", "quiet_s", type=click.FloatRange(1), default=90, show_default=True, help="Before it.")
@click.option("--jobs", type=click.IntRange(1), default=2000, show_default=True, help="Its hostile users'.")
@click.option("--cases", type=click.IntRange(1), help=f"Read back so many jobs. [default: {CASES}]")
@click.option("--client", "clients", type=click.Choice(NAMES), multiple=True, help="[default: all that run here]")
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed draws the same attacks.")
def main(
    *,
    rows: bool,
    names: tuple[str, ...],
    soak: bool,
    seconds: float,
    quiet_s: float,
    jobs: int,
    cases: int | None,
    clients: tuple[str, ...],
    seed: int,
) -> None:
    """Run the parts and say whether they held."""
    every = not (rows or names or soak or cases)
    held: list[bool] = []
    for client in map(ClientChoice, clients or CLIENTS):
        if rows or names or every:
            held += run_attacks(names, client, lambda line: print(line, flush=True))
        if soak or every:
            plan = soaks.Plan(client=client, seconds=seconds, quiet_s=quiet_s, jobs=jobs, seed=seed)
            held.append(soaked(plan))
    if cases or every:
        held.append(read_back(cases or CASES, seed))
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
