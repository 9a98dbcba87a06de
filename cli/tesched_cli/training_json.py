"""Trainings in the JSON of `tesched status` and `tesched explain`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from tesched_core.model.arrays import np
from tesched_core.model.job_report import Curve
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_db.reports import ReportView
from tesched_db.trainings import HeldShare, TrainingView

if TYPE_CHECKING:
    from tesched_policies.slaq.outlook import Outlook


@dataclass(frozen=True, slots=True, kw_only=True)
class PointJson:
    """One loss that was reported."""

    iteration: int
    loss: float
    at: float
    #: work done by then; null: not reported
    work: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedJson:
    """A loss that is expected."""

    iteration: int
    loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlookJson:
    """What is expected of a training."""

    iteration: int
    loss: float
    #: the part of the first loss, above the asymptote, that is left
    normalised_loss: float
    predicted: PredictedJson
    asymptote: float
    #: the family of the curve; null: by the mean ratio so far
    family: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportJson:
    """What a job reported of itself."""

    at: UnixSeconds | None
    workload: str
    target_loss: float | None
    #: why its report is not used; empty: it is
    refused: str
    #: null: no loss was reported
    outlook: OutlookJson | None
    share: HeldShare | None
    points: tuple[PointJson, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJson:
    """A training."""

    #: the job, or the array, as squeue writes it
    job: str
    array_job_id: JobId | None
    name: str
    user: str
    #: tasks of an array that report
    tasks: int
    share: HeldShare
    at: UnixSeconds | None
    workload: str
    target_loss: float | None
    #: why its report is not used; empty: it is
    refused: str
    #: null: no loss was reported
    outlook: OutlookJson | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCurveJson(TrainingJson):
    """A training with its losses."""

    points: tuple[PointJson, ...]


def report_json(view: ReportView, ahead: Outlook | None, share: HeldShare | None) -> ReportJson:
    """Report of a job, for `tesched explain --json`. Work that was not reported is null."""
    return ReportJson(
        at=view.at,
        workload=view.workload,
        target_loss=view.target_loss,
        refused=view.refused,
        outlook=outlook_json(ahead),
        share=share,
        points=points_json(view.curve),
    )


def training_json(view: TrainingView, ahead: Outlook | None) -> TrainingJson:
    """Return a training, for `--json`."""
    return TrainingJson(
        job=view.label,
        array_job_id=view.array_job_id,
        name=view.name,
        user=view.user,
        tasks=view.tasks,
        share=view.share,
        at=view.at,
        workload=view.workload,
        target_loss=view.target_loss,
        refused=view.refused,
        outlook=outlook_json(ahead),
    )


def training_curve_json(view: TrainingView, ahead: Outlook | None) -> TrainingCurveJson:
    """Return a training with its losses, for `--json`."""
    head = training_json(view, ahead)
    known = {field.name: getattr(head, field.name) for field in fields(head)}
    return TrainingCurveJson(**known, points=points_json(view.curve))


def outlook_json(ahead: Outlook | None) -> OutlookJson | None:
    """Outlook of a training, for `--json`; None if no loss was reported."""
    if ahead is None:
        return None
    return OutlookJson(
        iteration=ahead.iteration,
        loss=ahead.loss,
        normalised_loss=ahead.normalised,
        predicted=PredictedJson(iteration=ahead.ahead, loss=ahead.predicted),
        asymptote=ahead.asymptote,
        family=ahead.family or None,
    )


def points_json(curve: Curve) -> tuple[PointJson, ...]:
    """Return a curve for `--json`."""
    columns = (curve.iteration.tolist(), curve.loss.tolist(), curve.at.tolist(), curve.work.tolist())
    return tuple(
        PointJson(iteration=iteration, loss=loss, at=at, work=None if np.isnan(work) else work)
        for iteration, loss, at, work in zip(*columns, strict=True)
    )
