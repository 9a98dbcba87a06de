"""The doctor on a policy that shares GPUs: where it can, where it cannot, and why."""

from __future__ import annotations

import pytest
from tesched_daemon.config import Config
from tesched_daemon.doctor.slurm import shares_gpus
from tesched_policies.gavel.policy import Gavel
from tesched_policies.registry import policy_config

from tests.builders import node

CONFIG = Config(policy=policy_config(be="gavel", gavel=Gavel(allocator="las-sharing", types=("v100", "k80"))))


def test_shards_of_one_gpu_a_node_can_be_shared() -> None:
    nodes = [node("v", gres={"gpu:v100": 1, "shard:v100": 4}), node("k", gres={"gpu:k80": 2})]
    found = shares_gpus(CONFIG, nodes)
    assert (found.level, found.text) == (
        "ok",
        "las-sharing shares GPUs of v100 (4 a GPU) among jobs that ask for shards",
    )


@pytest.mark.parametrize(
    ("gres", "said"),
    [({"gpu:v100": 2}, "no node has shards"), ({"gpu:v100": 2, "shard:v100": 4}, "where a node has several GPUs")],
)
def test_without_them_it_says_that_none_is_shared_and_why(gres: dict[str, int], said: str) -> None:
    found = shares_gpus(CONFIG, [node("v", gres=gres)])
    assert found.level == "warn"
    assert said in found.text
    assert found.advice


def test_the_policy_that_would_have_to_know_more_is_not_for_slurm() -> None:
    with pytest.raises(ValueError, match="what a job got done beside another is not known on Slurm"):
        Gavel(allocator="ftf-sharing")
