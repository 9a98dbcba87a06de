"""GPUs in TRES as Slurm's accounting writes them: `cpu=8,gres/gpu=2,mem=64G,node=1`."""

from __future__ import annotations

from collections.abc import Callable

_GPU = "gres/gpu"


def tres_amounts(text: str) -> dict[str, str]:
    """Split TRES into the amount of each, as it is written."""
    return dict(word.split("=", 1) for word in text.split(",") if "=" in word)


def gpus_in(text: str, number: Callable[[str], int]) -> int:
    """Count the GPUs; where the site accounts for them by type alone (`gres/gpu:a100=2`), the sum of the types.

    Raises what `number` raises for an amount.
    """
    amounts = tres_amounts(text)
    if plain := amounts.get(_GPU):
        return number(plain)
    return sum(number(amount) for name, amount in amounts.items() if name.startswith(f"{_GPU}:"))
