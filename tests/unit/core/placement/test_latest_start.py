"""The nodes of a reservation are found once in a poll, however many TE jobs its victims are weighed for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from tesched_core.model.cluster import Reservation
from tesched_core.placement.latest_start import leaves_too_late

from tests.builders import NOW, cluster, node, running, share, view_of, waiting


class Counted(Mapping[str, int]):
    """Rows of nodes, and how often each was read."""

    def __init__(self, rows: Mapping[str, int]) -> None:
        self.rows, self.read = rows, Counter[str]()

    def __getitem__(self, name: str) -> int:
        self.read[name] += 1
        return self.rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, name: object) -> bool:
        return name in self.rows


def test_nodes_of_a_reservation_are_found_once_for_all_te_jobs() -> None:
    maintenance = Reservation(name="m", start_time=NOW + 700, end_time=NOW + 9999, nodes=frozenset({"n1", "n2"}))
    seen = cluster([node("n1"), node("n2")], [running(1, share("n1", 32))], graces={1: 300}, reservations=[maintenance])
    rows = Counted({"n1": 0, "n2": 1})
    find = leaves_too_late(view_of(seen).running, seen, rows)
    for number, limit_s in enumerate((500, 550, 600)):
        ((late, _),) = find(waiting(10 + number, cpus=16, time_limit_s=limit_s))
        assert late.tolist() == [0]
    assert rows.read == {"n1": 1, "n2": 1}
