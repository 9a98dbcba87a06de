"""Document of `tesched explain --json`."""

from __future__ import annotations

from dataclasses import dataclass

from tesched_core.model.decision import LeftOfBound
from tesched_core.model.outlived import Barred
from tesched_db.let_through import LetThrough
from tesched_db.views import JobStory

from tesched_cli.json_output import document
from tesched_cli.render import expectation
from tesched_cli.render.delays import JobDelayJson
from tesched_cli.render.until import UntilJson
from tesched_cli.training_json import ReportJson, TrainingCurveJson


@document("explain")
@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainJson:
    """What is known of one job."""

    story: JobStory
    #: what policies say of it, in sentences
    policies: tuple[str, ...]
    #: what it reported of itself; null: nothing
    report: ReportJson | None
    #: what the tasks of its array reported together; null: nothing, or it is in none
    array: TrainingCurveJson | None
    #: how long it is expected to run; null: nothing is known
    expected: expectation.Expected | None
    #: by how much TE jobs have delayed it
    delay: JobDelayJson
    #: what is left of its bound (guard.bound); null: nothing is bounded, or it is far from it
    bound: LeftOfBound | None
    #: an operator has let it through; null: no
    let_through: LetThrough | None
    #: why no TE job of its user starts; null: that is not so
    barred: Barred | None
    #: times at which a limit or a wait ends
    until: tuple[UntilJson, ...]
