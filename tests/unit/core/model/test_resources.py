"""Amounts: a typed GRES counts under its type and under its bare name."""

from __future__ import annotations

import pytest
from tesched_core.model.resources import Tres, with_bare_names


@pytest.mark.parametrize(
    ("said", "counted"),
    [
        ([("gpu:a100", 4)], (("gpu", 4), ("gpu:a100", 4))),
        # two types are two devices: 4 + 2 of any type
        ([("gpu:v100", 2), ("gpu:a100", 4)], (("gpu", 6), ("gpu:a100", 4), ("gpu:v100", 2))),
        # the same device said in two places, and an untyped one beside it: 1 + 2 + 3
        ([("gpu:a100", 1), ("gpu:a100", 2), ("gpu", 3)], (("gpu", 6), ("gpu:a100", 3))),
        ([("shard", 8)], (("shard", 8),)),
        ([("gpu", 0), ("gpu:a100", 0)], ()),
        ([], ()),
    ],
)
def test_typed_gres_counts_under_its_bare_name_too(
    said: list[tuple[str, int]], counted: tuple[tuple[str, int], ...]
) -> None:
    assert with_bare_names(said) == counted


def test_gpus_are_those_of_any_type() -> None:
    assert Tres(gres=with_bare_names([("gpu:a100", 4), ("gpu:v100", 2), ("shard", 9)])).gpus == 6
    assert Tres(cpus=4).gpus == 0


def test_sum_is_by_component() -> None:
    one = Tres(cpus=1, mem_mib=10, gres=(("gpu", 1), ("gpu:a100", 1)))
    two = Tres(cpus=2, mem_mib=20, gres=(("gpu", 2), ("gpu:v100", 2)))
    assert one + two == Tres(cpus=3, mem_mib=30, gres=(("gpu", 3), ("gpu:a100", 1), ("gpu:v100", 2)))


def test_mapping_names_every_component() -> None:
    assert Tres(cpus=1, mem_mib=2, gres=(("gpu", 3),)).as_mapping() == {"cpu": 1, "mem_mib": 2, "gpu": 3}


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (Tres(cpus=1), "1 CPU"),
        (Tres(cpus=4, mem_mib=16 * 1024, gres=(("gpu", 2),)), "4 CPUs, 16 GiB, 2 gpu"),
        (Tres(cpus=4, gres=(("lic", 1025), ("tmp", 199 * 2**30))), "4 CPUs, 1025 lic, 199G tmp"),
        (Tres(cpus=2, mem_mib=1500), "2 CPUs, 1500 MiB"),
        # a typed device is listed once, by its type
        (Tres(cpus=2, gres=(("gpu", 2), ("gpu:a100", 2))), "2 CPUs, 2 gpu:a100"),
    ],
)
def test_amount_reads_as_an_admin_would_write_it(amount: Tres, text: str) -> None:
    assert str(amount) == text
