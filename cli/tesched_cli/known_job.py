"""What the state store has of one job, and what follows from it: for `tesched explain` and `tesched top`."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Engine
from tesched_core.model.cluster import JobState
from tesched_core.model.decision import LeftOfBound
from tesched_core.model.limits import TeLimits
from tesched_core.model.outlived import Barred
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_daemon.config import Config
from tesched_db import queries as read
from tesched_db import reports, trainings
from tesched_db.let_through import LetThrough, let_through
from tesched_db.outlived_rows import barred
from tesched_db.reports import ReportView
from tesched_db.trainings import Share, TrainingView
from tesched_db.views import JobStory
from tesched_policies.registry import STATES

from tesched_cli.render import expectation, training
from tesched_cli.render.bound import left_of_bound
from tesched_cli.render.expectation import Expected
from tesched_cli.render.until import Until, until_of

if TYPE_CHECKING:
    from tesched_policies.slaq.outlook import Outlook


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownJob:
    """What the store has of one job, and what follows from it."""

    story: JobStory
    config: Config
    until: Until
    #: how long it is expected to run
    expected: Expected | None
    #: what it reports of its training, and how that is expected to go on
    told: ReportView | None
    ahead: Outlook | None
    #: the same of the tasks of its array together
    array: TrainingView | None
    together: Outlook | None
    #: what its training holds
    share: Share | None
    #: when an operator has let it, or its array, through
    free: LetThrough | None
    #: why no TE job of its user starts
    misuse: Barred | None
    bound: LeftOfBound | None


def known_job(engine: Engine, config: Config, job: str) -> KnownJob | None:
    """Return what is known of a job, by what squeue writes; None if tesched has never seen it. Raises StoreError."""
    story = read.job_story(engine, job, STATES)
    if story is None:
        return None
    expected = expectation.of_job(engine, story.job, config)
    told = reports.report(engine, story.job.key)
    array = _array_of(engine, story)
    until = until_of(engine, story, config.guard, time.time())
    return KnownJob(
        story=story,
        config=config,
        until=until,
        expected=expected,
        told=told,
        ahead=training.outlook_of(told.curve, told.target_loss) if told else None,
        array=array,
        together=training.outlook_of(array.curve, array.target_loss) if array else None,
        share=trainings.shares(engine).get(story.job.label) if told else None,
        free=_let_through(engine, story),
        misuse=_barred(engine, story, config.guard.te),
        bound=left_of_bound(read.daemon(engine), story, until.memory, expected),
    )


def _let_through(engine: Engine, story: JobStory) -> LetThrough | None:
    """Return when an operator has let the job, or its array, through; None if that was not so."""
    if story.job.gone:
        return None
    return next(iter(let_through(engine, story.job.job_id)), None)


def _barred(engine: Engine, story: JobStory, limits: TeLimits) -> Barred | None:
    """Return why no TE job of the job's user starts; None: the job is none, or waits no more, or that is not so."""
    if story.job.job_class is not JobClass.TE or story.job.state is not JobState.PENDING:
        return None
    return barred(engine, limits, time.time()).get(story.job.user)


def _array_of(engine: Engine, story: JobStory) -> TrainingView | None:
    """Return what the tasks of the job's array reported together; None if it is in none, or they reported nothing."""
    found = re.match(r"\d+(?=_)", story.job.label)
    return trainings.array(engine, JobId(int(found[0]))) if found else None
