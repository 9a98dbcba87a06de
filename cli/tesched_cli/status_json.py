"""Document of `tesched status --json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tesched_core.model.outlived import Barred
from tesched_core.model.resources import JobId
from tesched_db.deeds import Deed
from tesched_db.lease import Pause, Standby
from tesched_db.let_through import LetThrough
from tesched_db.liveness import DaemonState
from tesched_db.te_refused import TeRefused
from tesched_db.views import CycleView, DaemonView, OrderTally, OrderView, QueueView, Retry

from tesched_cli.json_output import document
from tesched_cli.render.delays import DelaysJson
from tesched_cli.render.troubles import Overdue
from tesched_cli.training_json import TrainingJson


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingsJson:
    """Trainings that report their losses."""

    shown: tuple[TrainingJson, ...]
    #: how many more there are
    more: int


@document("status")
@dataclass(frozen=True, slots=True, kw_only=True)
class StatusJson:
    """The daemon, its queues and its decisions."""

    #: how the daemon is, in a sentence
    health: str
    state: DaemonState
    #: as it last said of itself; null: no daemon has ever written here
    daemon: DaemonView | None
    #: daemons that wait for the lead
    standbys: tuple[Standby, ...]
    #: null: it is not paused
    paused: Pause | None
    #: what admins did last, the newest first
    deeds: tuple[Deed, ...]
    #: jobs that are changed now, by field
    changed: Mapping[str, tuple[JobId, ...]]
    #: TE jobs that an operator has let through
    let_through: tuple[LetThrough, ...]
    #: users with no TE job that may start
    barred: tuple[Barred, ...]
    #: by class
    queues: tuple[QueueView, ...]
    #: those under way
    orders: tuple[OrderView, ...]
    #: waiting TE jobs that are tried again, the next one first
    retries: tuple[Retry, ...]
    #: orders that ended lately
    tally: OrderTally
    #: the last cycles with an action, the newest first
    decisions: tuple[CycleView, ...]
    #: jobs, CPUs, GPUs and nodes that the running jobs hold, by class
    use: Mapping[str, Mapping[str, int]]
    #: victims that have waited too long to run again
    overdue: tuple[Overdue, ...]
    delays: DelaysJson
    #: TE jobs that had to wait for guard.bound in the last day
    te_refused: TeRefused
    trainings: TrainingsJson
