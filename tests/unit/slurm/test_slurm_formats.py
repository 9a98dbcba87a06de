"""Slurm's words are read as Slurm means them, and a user's text forges none of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_slurm import slurm_formats as words
from tesched_slurm.scontrol_cluster import read_nodes


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("30", 30),
        ("05:00", 300),
        ("01:02:03", 3723),
        ("1-02:03:04", 93784),
        ("365-00:00:00", 31536000),
        ("UNLIMITED", None),
        ("N/A", None),
        ("Partition_Limit", None),
    ],
)
def test_seconds_are_read(value: str, expected: int | None) -> None:
    assert words.seconds(value) == expected


@pytest.mark.parametrize(("value", "expected"), [("1795223314", 1795223314.0), ("Unknown", None), ("None", None)])
def test_moments_are_read(value: str, expected: float | None) -> None:
    assert words.moment(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [("1000M", 1000), ("2G", 2048), ("1.50G", 1536), ("2048K", 2), ("512", 512), ("0", 0)]
)
def test_mebibytes_are_read(value: str, expected: int) -> None:
    assert words.mebibytes(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("gpu:2", (("gpu", 2),)),
        ("gres:gpu:4", (("gpu", 4),)),
        ("gres/gpu:a100=2", (("gpu:a100", 2),)),
        ("gpu:a100:2(S:0-1)", (("gpu:a100", 2),)),
        ("gpu:3(IDX:0,2-3)", (("gpu", 3),)),
        ("gpu", (("gpu", 1),)),
        ("gpu:v100:1,gpu:a100:4(S:0,1)", (("gpu:a100", 4), ("gpu:v100", 1))),
        ("gpu:2,tmp:400G", (("gpu", 2), ("tmp", 400 * 2**30))),
        ("tmp:100T", (("tmp", 100 * 2**40),)),
        ("bw:9000M,tmp:3P", (("bw", 9000 * 2**20), ("tmp", 3 * 2**50))),
        ("gres:gpu:1,gres:tmp:199g", (("gpu", 1), ("tmp", 199 * 2**30))),
        ("gres:tmp:7k", (("tmp", 7168),)),
        ("gres:tmp:1p", (("tmp", 2**50),)),
        ("gres:tmp:1GB", (("tmp", 10**9),)),
        ("gres:tmp:1kib", (("tmp", 1024),)),
        ("gres:lic:slow:2k", (("lic:slow", 2048),)),
        ("gres/tmp=322122547200", (("tmp", 300 * 2**30),)),
        ("gpu:1(IDX:0),tmp(CNT:2147483648)", (("gpu", 1), ("tmp", 2**31))),
        ("lic:fast(CNT:2),tmp(CNT:1073741824)", (("lic:fast", 2), ("tmp", 2**30))),
        ("bw(CNT:0)", (("bw", 0),)),
        ("gpu:a100:1(IDX:3),shard:2(1/2,1/2)", (("gpu:a100", 1), ("shard", 2))),
        ("gpu:1g.10gb:2", (("gpu:1g.10gb", 2),)),
        ("(null)", ()),
        ("", ()),
    ],
)
def test_gres_are_read(value: str, expected: tuple[tuple[str, int], ...]) -> None:
    assert words.gres(value) == expected
    assert words.asked_gres(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("gres:gpu:3,gres:gpu:1", (("gpu", 1),)),
        ("gres:gpu:1,gres:gpu:3", (("gpu", 3),)),
        ("gres:gpu:8,gres:gpu:0", (("gpu", 8),)),
        ("gres:gpu:0", (("gpu", 0),)),
        ("gres:gpu:a:2,gres:tmp:1,gres:gpu:b:1,gres:gpu:a:1", (("gpu:a", 1), ("gpu:b", 1), ("tmp", 1))),
    ],
)
def test_of_a_device_that_a_request_names_twice_the_last_counts(
    value: str, expected: tuple[tuple[str, int], ...]
) -> None:
    assert words.asked_gres(value) == expected


def test_the_order_of_a_request_is_kept_where_it_matters() -> None:
    assert words.gres_in_order("gres:tmp:1,gres:gpu:2,gres:tmp:3") == (("tmp", 3), ("gpu", 2))


@pytest.mark.parametrize("value", ["n1 n2", "n1,,n2", " n1\tn2 ,", ",n[1-2],", "n[1,2]", "n[1, 2]"])
def test_a_host_list_is_cut_where_slurm_cuts_it(value: str) -> None:
    assert words.hosts(value) == ("n1", "n2")


def test_a_list_in_order_has_each_item_once_and_no_empty_one() -> None:
    assert words.in_order("main,,debug,main,") == ("main", "debug")
    assert words.in_order("") == ()


@pytest.mark.parametrize(
    ("value", "expected"),
    [("n1", ("n1",)), ("n[2-3,5]", ("n2", "n3", "n5")), ("n[08-10]", ("n08", "n09", "n10")), ("(null)", ()), ("", ())],
)
def test_hosts_are_expanded(value: str, expected: tuple[str, ...]) -> None:
    assert words.hosts(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        "@x",
        "@x'$(id)'",
        "n[1-",
        "n[1-99999999]",
        "n[1-300]r[1-300]",
        "n[1-2]!n1",
        "n1&n2",
        "n\n1",
        "n[]",
        "n[a-b]",
    ],
)
def test_what_is_no_list_of_nodes_that_a_cluster_can_have_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="another form than known"):
        words.hosts(value)


def test_a_group_of_nodes_is_not_resolved_by_a_shell(tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    with pytest.raises(ValueError, match="another form"):
        words.hosts(f"@x'$(touch {proof})'")
    assert not proof.exists()


def test_a_drain_reason_forges_nothing() -> None:
    line = (
        "NodeName=n1 CPUAlloc=0 CPUEfctv=32 CPUTot=32 Gres=gpu:a100:4 RealMemory=256000 State=IDLE+DRAIN"
        " Partitions=main Reason=fan State=IDLE Gres=gpu:9 [root@1000]\n"
    )
    (node,) = read_nodes(line)
    assert (node.state, node.flags, node.reason) == ("IDLE", frozenset({"DRAIN"}), "fan State=IDLE Gres=gpu:9")
    assert node.total.as_mapping() == {"cpu": 32, "mem_mib": 256000, "gpu": 4, "gpu:a100": 4}


@pytest.mark.parametrize(
    ("said", "state", "flag"),
    [
        ("DOWN*", "DOWN", "NOT_RESPONDING"),
        ("MIXED+COMPLETING", "MIXED", "COMPLETING"),
        ("IDLE~", "IDLE", "POWERED_DOWN"),
        ("IDLE#", "IDLE", "POWERING_UP"),
        ("MIXED-", "MIXED", "PLANNED"),
        ("IDLE@", "IDLE", "REBOOT_REQUESTED"),
    ],
)
def test_node_states_are_read(said: str, state: str, flag: str) -> None:
    (node,) = read_nodes(f"NodeName=n1 CPUTot=32 RealMemory=1000 State={said} Partitions=main\n")
    assert (node.state, node.flags) == (state, frozenset({flag}))
