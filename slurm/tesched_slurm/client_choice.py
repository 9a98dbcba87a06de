"""Ways to speak to Slurm that a configuration may name; `clients.choose` takes one."""

from __future__ import annotations

from enum import StrEnum


class ClientChoice(StrEnum):
    """Way to speak to Slurm."""

    AUTO = "auto"
    PYSLURM = "pyslurm"
    COMMANDS = "commands"
