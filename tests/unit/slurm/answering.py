"""Commands of Slurm's that answer what a test says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tesched_core.model.actions import Failure
from tesched_slurm.run_command import Commands


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering(Commands):
    """Commands that answer with the next of `answers`, and note which were run."""

    answers: list[str | Failure]
    ran: list[tuple[str, ...]] = field(default_factory=list)

    def run(
        self, argv: Sequence[str], variables: Mapping[str, str] | None = None, *, enough: int | None = None
    ) -> str | Failure:
        """Note the command, and return the next answer."""
        self.calls[argv[0]] += 1
        self.ran.append(tuple(argv))
        return self.answers.pop(0)
