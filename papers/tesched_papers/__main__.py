"""`python -m tesched_papers gavel|pdors|slaq`: figures of the papers, by the papers' own models; for developers."""

from __future__ import annotations

import click
from tesched_cli.one_line_errors import OneLineErrors

from tesched_papers.gavel.command import gavel
from tesched_papers.pdors.command import pdors
from tesched_papers.slaq.command import slaq


@click.group(cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Reproduce the figures of Gavel, PD-ORS and SLAQ by the models of their papers."""


for _command in (gavel, pdors, slaq):
    main.add_command(_command)

if __name__ == "__main__":
    main()
