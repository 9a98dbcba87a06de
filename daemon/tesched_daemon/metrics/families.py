"""The metrics: each with its kind, its labels and what it says. `docs/reference/metrics.md` has their table.

Gauges say what `tesched status` says, by the same queries. Counters and histograms begin when they are first served and
rise by what the store gets (`tesched_db.tail`), so that `rate` and `increase` see a restart as Prometheus expects it.
Labels are words of tesched's own, and names of partitions, of which there are at most `MOST_PARTITIONS`: no user, no
job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Histogram, Metric, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector
from tesched_core.model.actions import FailureKind
from tesched_core.model.cluster import JobState
from tesched_core.model.decision import RefusalCode
from tesched_core.model.order import Departure, Ending, Purpose
from tesched_core.model.resources import UnixSeconds
from tesched_core.model.snapshot import JobClass
from tesched_db.tail import News, Now

from tesched_daemon.settings import Mode

#: Values of the label `partition`; a further one is `OTHER`.
MOST_PARTITIONS = 200
OTHER = "other"
#: Values of the label `call`.
MOST_CALLS = 100
WAIT_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400)
PHASE_S = (0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)
SLOWDOWN = (1.01, 1.05, 1.1, 1.25, 1.5, 2, 3, 5, 10, 25, 100)
PHASES = ("notice", "leave", "start", "whole")
STAGES = ("observe", "decide", "act")
_PERCENTILES = ("50", "95", "99")
#: what a cause of a failed poll is called where there was none
_SEEN = "seen"

#: By name: labels, and what it says. Of this process, whether it leads or stands by.
OWN: Mapping[str, tuple[tuple[str, ...], str]] = {
    "tesched_build_info": (("version",), "1, with the release of tesched."),
    "tesched_leader": ((), "1: this daemon leads; 0: it stands by, and has none of the metrics of the store."),
    "tesched_mode": (("mode",), "1 for the mode of this daemon, 0 for the others."),
    "tesched_store_readable": ((), "1: the store was read for these metrics; 0: they are as of the read before."),
    "tesched_store_read_timestamp_seconds": ((), "When the store was last read for these metrics, Unix time."),
    "tesched_store_read_duration_seconds": ((), "How long that read took."),
}
#: Of the store: the leader alone has them.
STORE: Mapping[str, tuple[tuple[str, ...], str]] = {
    "tesched_last_poll_timestamp_seconds": ((), "When Slurm was last seen, Unix time."),
    "tesched_sees_slurm": ((), "1: the last poll saw Slurm; 0: it failed."),
    "tesched_paused": ((), "1: an admin has paused tesched."),
    "tesched_standbys": ((), "Daemons that wait for the lead."),
    "tesched_jobs": (("class", "state"), "Jobs that Slurm knows."),
    "tesched_longest_wait_seconds": (("class",), "Time since the first submission of the job that waits longest."),
    "tesched_last_day_slowdown": (
        ("class", "percentile"),
        "Slowdown, 1 + waiting / running, of the jobs that ended within the last day.",
    ),
    "tesched_open_orders": ((), "Orders that have not ended."),
    "tesched_last_day_orders": ((), "Orders for TE jobs that ended within the last day."),
    "tesched_last_day_futile_orders": ((), "Orders known within the last day to have come to nothing."),
    "tesched_last_day_victims": ((), "Victims that left for TE jobs within the last day."),
    "tesched_last_day_lost_victims": ((), "Victims that could not be put back in the queue, within the last day."),
    "tesched_last_day_lost_node_seconds": ((), "Node-seconds of runs that were ended for TE jobs within the last day."),
    "tesched_bound_slowdown": ((), "guard.bound.slowdown; without a value: nothing is bounded."),
    "tesched_bound_waiting_jobs": ((), "TE jobs that have to wait for guard.bound."),
    "tesched_bound_near_jobs": ((), "BE jobs that are near their bounds."),
    "tesched_bound_used_ratio": ((), "Largest part of its bound by which a BE job is delayed, by tesched's account."),
    "tesched_bound_left_seconds": ((), "Least time by which TE jobs may yet delay a BE job that they have delayed."),
}


@dataclass(slots=True, eq=False)
class Gauges(Collector):
    """Gauges of a catalogue, with the values that were set last; one without a value has no sample."""

    catalogue: Mapping[str, tuple[tuple[str, ...], str]]
    values: dict[str, dict[tuple[str, ...], float]] = field(default_factory=dict)

    def set(self, name: str, value: float | None, *labels: str) -> None:
        """Give a gauge a value, or none."""
        if value is not None:
            self.values.setdefault(name, {})[labels] = value

    def collect(self) -> Iterator[Metric]:
        """Yield each of them."""
        for name, (labels, text) in self.catalogue.items():
            family = GaugeMetricFamily(name, text, labels=labels)
            for values, value in self.values.get(name, {}).items():
                family.add_metric(values, value)
            yield family


@dataclass(slots=True, eq=False)
class Calls(Collector):
    """Calls to Slurm, which the client counts itself."""

    counts: Mapping[str, int] = field(default_factory=dict)

    def collect(self) -> Iterator[Metric]:
        """Yield the counter."""
        text = "Calls to Slurm by this process, and pokes that it took."
        family = CounterMetricFamily("tesched_calls", text, labels=("call",))
        for call in sorted(self.counts)[:MOST_CALLS]:
            family.add_metric((call,), self.counts[call])
        yield family


class Counts:
    """Counters and histograms, from when they are first served on."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register them, each with a first 0 for every word that its labels can be: `increase` needs that."""
        self.wait = Histogram(
            "tesched_job_wait_seconds",
            "Wait of a run, from the job's submission, or its requeue, until it started.",
            ("class", "partition"),
            registry=registry,
            buckets=WAIT_S,
        )
        self.slowdown = Histogram(
            "tesched_job_slowdown",
            "Slowdown, 1 + waiting / running, of jobs that have ended and were seen from the start.",
            ("class",),
            registry=registry,
            buckets=SLOWDOWN,
        )
        self.phase = Histogram(
            "tesched_order_phase_seconds",
            "Phases of orders with a TE job that started: notice, from the decision until the first victim has its "
            "notice; leave, until the last one has left; start, until the TE job is seen to run; whole, all of them.",
            ("phase",),
            registry=registry,
            buckets=PHASE_S,
        )
        self.orders = Counter(
            "tesched_orders",
            "Orders that ended, by their endings: for TE jobs, and, as round, turns of BE jobs.",
            ("ending", "purpose"),
            registry=registry,
        )
        self.futile = Counter(
            "tesched_futile_orders", "Orders with victims that left for nothing.", ("purpose",), registry=registry
        )
        self.victims = Counter(
            "tesched_victims",
            "Victims that left, by how; one that is lost after it had left counts again, as lost.",
            ("departure", "purpose"),
            registry=registry,
        )
        self.lost_node_s = Counter(
            "tesched_lost_node_seconds", "Node-seconds of runs that were ended.", ("purpose",), registry=registry
        )
        self.refusals = Counter(
            "tesched_refusals",
            "Refusals as they were first said: of the waiting job itself, or of a candidate for a victim.",
            ("code", "of"),
            registry=registry,
        )
        self.polls = Counter(
            "tesched_polls", "Polls that saw Slurm, or failed, by why.", ("outcome",), registry=registry
        )
        self.stage = Counter("tesched_poll_stage_seconds", "Time in polls, by stage.", ("stage",), registry=registry)
        self._partitions: set[str] = set()
        self._seed()

    def _seed(self) -> None:
        for phase in PHASES:
            self.phase.labels(phase)
        for job_class in JobClass:
            self.slowdown.labels(job_class)
        for purpose in Purpose:
            self.futile.labels(purpose)
            self.lost_node_s.labels(purpose)
            for ending in Ending:
                self.orders.labels(ending, purpose)
            for departure in Departure:
                self.victims.labels(departure, purpose)
        for code in RefusalCode:
            for of in ("job", "candidate"):
                self.refusals.labels(code, of)
        for outcome in (_SEEN, *FailureKind):
            self.polls.labels(outcome)
        for stage in STAGES:
            self.stage.labels(stage)

    def know(self, partitions: Iterable[str]) -> None:
        """Begin with the wait in these partitions at 0."""
        for name in sorted(partitions):
            if name not in self._partitions:
                for job_class in (JobClass.TE, JobClass.BE):
                    self.wait.labels(job_class, self._partition(name))

    def _partition(self, name: str) -> str:
        if name not in self._partitions:
            # Several, of a job whose start was not seen.
            if "," in name or len(self._partitions) >= MOST_PARTITIONS:
                return OTHER
            self._partitions.add(name)
        return name

    def add(self, news: News) -> None:
        """Count what is new."""
        for run in news.started:
            self.wait.labels(run.job_class, self._partition(run.partition)).observe(run.waited_s)
        for job_class, value in news.slowdowns:
            self.slowdown.labels(job_class).observe(value)
        for one in news.phases:
            times = (one.notice_s, one.leave_s, one.start_s, one.whole_s)
            for phase, seconds in zip(PHASES, times, strict=True):
                if seconds is not None:
                    self.phase.labels(phase).observe(seconds)
        for ending, purpose in news.endings:
            self.orders.labels(ending, purpose).inc()
        for purpose in news.futile:
            self.futile.labels(purpose).inc()
        for left in news.left:
            self.victims.labels(left.departure, left.purpose).inc()
            self.lost_node_s.labels(left.purpose).inc(left.lost_node_s)
        for (code, of_itself), count in news.refusals.items():
            self.refusals.labels(code, "job" if of_itself else "candidate").inc(count)
        for polls in news.polls:
            self.polls.labels(polls.failure or _SEEN).inc(polls.count)
            for stage, seconds in zip(STAGES, (polls.observe_s, polls.decide_s, polls.act_s), strict=True):
                self.stage.labels(stage).inc(seconds)


class Families:
    """All metrics of one process, and their text."""

    def __init__(self) -> None:
        """Make them; no value is known yet."""
        # Series of their own that say when each counter began: twice as many, and no query needs them.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._own, self._store = CollectorRegistry(), CollectorRegistry()
        self.own, self.store, self.calls = Gauges(OWN), Gauges(STORE), Calls()
        self._own.register(self.own)
        self._own.register(self.calls)
        self._store.register(self.store)
        self.counts = Counts(self._store)

    def catalogue(self) -> Iterator[Metric]:
        """Yield each metric."""
        yield from self._own.collect()
        yield from self._store.collect()

    def own_now(self, *, leads: bool, mode: Mode, version: str, calls: Mapping[str, int]) -> None:
        """Take in how this process is."""
        self.own.set("tesched_build_info", 1.0, version)
        self.own.set("tesched_leader", float(leads))
        for each in Mode:
            self.own.set("tesched_mode", float(each is mode), each.value)
        self.calls.counts = calls

    def read(self, *, at: UnixSeconds | None, took_s: float) -> None:
        """Take in that the store was read then, or, without a time, that it could not be."""
        self.own.set("tesched_store_readable", float(at is not None))
        self.own.set("tesched_store_read_timestamp_seconds", at)
        self.own.set("tesched_store_read_duration_seconds", took_s)

    def store_now(self, now: Now) -> None:
        """Take in what the store says."""
        self.counts.add(now.news)
        self.store.values = {}
        put = self.store.set
        daemon, tally = now.daemon, now.tally
        put("tesched_last_poll_timestamp_seconds", daemon.seen_at if daemon else None)
        put("tesched_sees_slurm", float(daemon is not None and daemon.failure_kind is None))
        put("tesched_paused", float(now.paused))
        put("tesched_standbys", now.standbys)
        for queue in now.queues:
            for state in JobState:
                put("tesched_jobs", queue.states.get(state, 0), queue.job_class.value, state.value.lower())
            put("tesched_longest_wait_seconds", queue.longest_wait_s or 0.0, queue.job_class.value)
            of_day = queue.slowdown
            for percentile, value in zip(_PERCENTILES, (of_day.p50, of_day.p95, of_day.p99), strict=True):
                put("tesched_last_day_slowdown", value, queue.job_class.value, percentile)
        put("tesched_open_orders", now.open_orders)
        put("tesched_last_day_orders", tally.orders)
        put("tesched_last_day_futile_orders", tally.futile)
        put("tesched_last_day_victims", tally.victims_left)
        put("tesched_last_day_lost_victims", tally.lost)
        put("tesched_last_day_lost_node_seconds", tally.lost_node_s)
        if daemon is not None and (bound := daemon.bound) is not None:
            put("tesched_bound_slowdown", bound.slowdown)
            put("tesched_bound_waiting_jobs", bound.te_waiting)
            put("tesched_bound_near_jobs", bound.near)
            used = [one.delayed_s / one.bound_s for one in bound.jobs if one.bound_s > 0]
            put("tesched_bound_used_ratio", max(used, default=0.0))
            put("tesched_bound_left_seconds", min((one.bound_s - one.delayed_s for one in bound.jobs), default=None))

    def text(self, *, openmetrics: bool, leads: bool) -> bytes:
        """Return the exposition; of a daemon that does not lead without what is the store's."""
        registry: Collector = _Both(self._own, self._store if leads else CollectorRegistry())
        form = generate_openmetrics if openmetrics else generate_latest
        return bytes(form(registry))


@dataclass(frozen=True, slots=True)
class _Both(Collector):
    first: CollectorRegistry
    second: CollectorRegistry

    def collect(self) -> Iterator[Metric]:
        yield from self.first.collect()
        yield from self.second.collect()
