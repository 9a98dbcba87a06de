"""Shards that are added to a workload, and which of its jobs want some instead of a GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tesched_core.policy import in_turn
from tesched_policies.fitgpp import FitGpp
from tesched_policies.gavel.policy import Gavel
from tesched_sim import traces, workloads
from tesched_sim.engine import simulate
from tesched_sim.slurm_settings import Behaviour
from tesched_sim.workload import Workload, WorkloadError

#: what costs little to draw
SMALL = {"jobs": "60", "nodes": "4"}
OPENB = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p0,12000,16384,1,1000,,LS,Running,0,100,5
p1,1500,2048,0,0,,BE,Succeeded,10,70,
p2,6000,12288,1,460,,BE,Running,20,120,20
p3,6000,12288,2,1000,,BE,Running,30,130,30
p4,1000,1024,1,10,,LS,Running,40,140,40
p5,1000,1024,1,810,,LS,Running,50,150,50
"""
PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n" + "".join(
    f"2017-10-03 00:00:{second:02},120.0,{gpus},120.0,vc1\n" for second in range(60) for gpus in (1, 2)
)


def made(name: str = "poisson", seed: int = 3, **more: str) -> Workload:
    return workloads.make(name, seed=seed, **SMALL, **more)


def wants(workload: Workload, name: str) -> list[int]:
    found: list[int] = workload.demand[:, workload.machines.resources.index(name)].tolist()
    return found


def filled(tmp_path: Path, text: str = OPENB, **settings: str) -> Workload:
    path = tmp_path / "trace"
    path.write_text(text)
    return workloads.filled(traces.read(path), settings, seed=1).workload


@pytest.mark.parametrize("name", ["poisson", "fitgpp"])
def test_jobs_of_one_gpu_want_a_part_of_it_and_the_others_are_the_same(name: str) -> None:
    plain, found = made(name), made(name, shards="4", shard_share="0.7")
    assert found.machines.resources == ("cpu", "mem_mib", "gpu", "shard")
    assert found.machines.total[:, 3].tolist() == (plain.machines.total[:, 2] * 4).tolist()
    shards = np.array(wants(found, "shard"))
    mine = shards > 0
    one = (np.array(wants(plain, "gpu")) == 1) & (plain.nodes == 1)
    assert 0 < mine.sum() < one.sum()
    assert not (mine & ~one).any()
    assert set(shards[mine].tolist()) == {1, 2, 3}
    assert (np.array(wants(found, "gpu")) == np.where(mine, 0, wants(plain, "gpu"))).all()
    assert (found.demand[~mine, :2] == plain.demand[~mine, :2]).all()
    assert (plain.submit_s == found.submit_s).all()


def test_a_part_of_a_gpu_comes_with_that_part_of_the_cpus_and_memory() -> None:
    found = made(shards="4")
    mine = np.array(wants(found, "shard")) > 0
    # 4 CPUs and 32 GiB a GPU.
    assert found.demand[mine, 0].tolist() == found.demand[mine, 3].tolist()
    assert found.demand[mine, 1].tolist() == (found.demand[mine, 3] * 8 * 1024).tolist()


def test_notes_say_how_many() -> None:
    found = made(shards="4")
    count = sum(one > 0 for one in wants(found, "shard"))
    assert f"each GPU has 4 shards; {count} of 60 jobs want some instead of a GPU" in found.notes


@pytest.mark.parametrize("value", ["1", "-2", "1025", "1000000000"])
def test_number_of_shards_that_no_gpu_has_is_refused(value: str) -> None:
    with pytest.raises(WorkloadError, match=rf"workload\.shards must be 0, or from 2 to 1024; it is {value}"):
        made(shards=value)


def test_word_that_is_no_number_is_refused_by_its_key() -> None:
    with pytest.raises(WorkloadError, match=r"workload\.shards: must be a whole number"):
        made(shards="two")


@pytest.mark.parametrize("value", ["1.5", "-0.1"])
def test_part_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(WorkloadError, match=r"workload\.shard_share must be from 0 to 1"):
        made(shards="2", shard_share=value)


def test_where_no_job_wants_one_gpu_the_notes_say_that_none_wants_shards() -> None:
    found = made(shards="2", te_sizes="2:1", be_sizes="2:1")
    assert "each GPU has 2 shards; 0 of 60 jobs want some instead of a GPU" in found.notes


def test_shards_are_refused_on_nodes_without_gpus(tmp_path: Path) -> None:
    text = "\n".join(line for line in OPENB.splitlines() if line[:2] in {"na", "p1"})
    with pytest.raises(WorkloadError, match=r"workload\.shards: the nodes have no GPUs.*; set workload\.gpus"):
        filled(tmp_path, text, shards="2", nodes="1", gpus="0")


def test_trainings_keep_whole_gpus() -> None:
    found = made(shards="2", trainings="1", shard_share="1")
    assert found.array is not None
    assert set(found.demand[found.array >= 0, 2].tolist()) == {1}


def test_types_and_shards_go_together() -> None:
    found = made(shards="2", types="v100:1:1/k80:1:0.3", gpus="1", te_sizes="1:1", be_sizes="1:1")
    assert found.speed is not None
    # A job on a part of a GPU is as fast as the GPU's type lets it be.
    assert (found.speed[np.array(wants(found, "shard")) > 0].min(axis=1) < 1).all()
    result = simulate(found.first(20), Behaviour(poll_s=30.0), policies=in_turn(FitGpp(), Gavel()))
    assert result.finished.all()


class TestTraces:
    """What a trace says of a GPU's parts counts; else they are drawn."""

    def test_openbs_parts_are_rounded_up_to_shards(self, tmp_path: Path) -> None:
        found = filled(tmp_path, nodes="2", shards="4")
        assert wants(found, "gpu") == [1, 0, 0, 2, 0, 1]
        assert wants(found, "shard") == [0, 0, 2, 0, 1, 0]  # 460 of 1,000 are two quarters; of 810 it needs all four
        assert found.demand[:, 0].tolist() == [12, 2, 6, 6, 1, 1]  # its CPUs are recorded

    def test_without_shards_a_part_counts_as_a_gpu(self, tmp_path: Path) -> None:
        found = filled(tmp_path, nodes="2")
        assert found.machines.resources == ("cpu", "mem_mib", "gpu")
        assert wants(found, "gpu") == [1, 0, 1, 2, 1, 1]

    def test_of_other_traces_they_are_drawn_with_what_is_made_up(self, tmp_path: Path) -> None:
        found = filled(tmp_path, PHILLY, nodes="4", shards="4", shard_share="0.5")
        shards = np.array(wants(found, "shard"))
        assert 20 < (shards > 0).sum() < 40  # of 60 of one GPU
        assert (found.demand[shards > 0, 0] == shards[shards > 0]).all()  # 4 CPUs a GPU

    def test_cluster_that_is_made_for_a_load_counts_parts(self, tmp_path: Path) -> None:
        text = PHILLY.replace(",2,120", ",1,120")
        whole, parts = (
            filled(tmp_path, text, gpus="1", shards="8", shard_share=share, cpus_per_gpu="1", load="1")
            for share in ("0", "1")
        )
        part = np.array(wants(parts, "shard")).mean() / 8
        assert len(parts.machines.names) == pytest.approx(len(whole.machines.names) * part, abs=2)

    @pytest.mark.parametrize("word", ["1001", "-1", "half", "0.5"])
    def test_part_that_is_none_is_an_error_of_its_line(self, tmp_path: Path, word: str) -> None:
        text = OPENB.replace(",460,", f",{word},")
        with pytest.raises(WorkloadError, match=rf":4: gpu_milli is '{word}'; it must be thousandths of a GPU, 0 to"):
            filled(tmp_path, text, nodes="2")

    def test_trace_without_the_column_says_nothing_of_it(self, tmp_path: Path) -> None:
        lines = [line.split(",") for line in OPENB.splitlines()]
        text = "\n".join(",".join(words[:4] + words[5:]) for words in lines)
        path = tmp_path / "openb"
        path.write_text(text)
        assert traces.read(path, "openb").gpu_milli.tolist() == [-1] * 6
