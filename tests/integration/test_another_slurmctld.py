"""Another slurmctld answers: the word of it is given once, and not lost with an answer that is not believed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType

from tesched_core.model.decision import Decision
from tesched_core.model.memory import Memory
from tesched_core.model.snapshot import Snapshot
from tesched_core.ports import CycleReport

from tests.loop_parts import FULL_CLUSTER, Cluster, Notebook, loop_of


@dataclass
class Watched(Notebook):
    """A journal that keeps what each decision was made on."""

    decided_on: list[Snapshot] = field(default_factory=list)

    def intend(self, snapshot: Snapshot, memory: Memory, decision: Decision, report: CycleReport) -> None:
        self.decided_on.append(snapshot)
        super().intend(snapshot, memory, decision, report)


def test_it_is_known_at_the_first_answer_that_is_believed() -> None:
    cluster, notebook = Cluster(), Watched()
    loop = loop_of(cluster, notebook)
    without_jobs = replace(FULL_CLUSTER, jobs=MappingProxyType({}), controller_changed=True)
    for cluster.seen in (FULL_CLUSTER, without_jobs, FULL_CLUSTER, FULL_CLUSTER):
        loop.turn(asked=True)
    assert len(notebook.unseen_reports) == 1
    assert [one.controller_is_new for one in notebook.decided_on] == [False, True, False]
