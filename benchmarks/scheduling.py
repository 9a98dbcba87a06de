"""The option of benchmarks that says which scheduler their Slurm has."""

from __future__ import annotations

from typing import get_args

import click
from tesched_testcluster.definition import Scheduling

__all__ = ["Scheduling", "scheduling_option"]

scheduling_option = click.option(
    "--scheduling",
    type=click.Choice(get_args(Scheduling)),
    default="fast",
    show_default=True,
    help="Slurm's passes: each second, or as an untouched slurm.conf or a large site has them.",
)
