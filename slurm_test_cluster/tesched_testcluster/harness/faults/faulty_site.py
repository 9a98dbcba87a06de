"""A site on which anything may go wrong: a cluster, a store, up to two daemons, people, and `tesched undo`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

from sqlalchemy import event
from tesched_core.intake.class_rules import Classification, Match, Rule
from tesched_core.model.cluster import JobState
from tesched_core.model.field import Field
from tesched_core.model.journal_error import JournalError
from tesched_core.model.limits import Limits
from tesched_core.model.notice import ExitZero
from tesched_core.model.snapshot import JobClass
from tesched_core.policy import Policy, in_turn
from tesched_daemon.loop import ACT_WITHIN_S, Loop
from tesched_daemon.settings import Mode, Pace
from tesched_daemon.undo import put_all_back
from tesched_db import lease
from tesched_db.engine import open_store
from tesched_db.journal import Identity, SqlJournal

from tesched_testcluster.harness.empty_store import store_bytes
from tesched_testcluster.harness.faults.faulty_daemon import Crash, Daemon, Fault
from tesched_testcluster.harness.faults.faulty_ledger import Ledger
from tesched_testcluster.harness.faults.faulty_slurm import Clock, FaultySlurm

LIMITS = Limits(
    max_preemptions_per_job=1,
    min_run_time_s=2,
    cool_down_s=40,
    max_victims_per_cycle=2,
    max_preemptions_per_hour=5,
    max_preemptions_per_user_hour=3,
    max_victims_for_te_user_hour=4,
    max_open_orders=4,
    order_timeout_s=16,
    suspend_for_s=40,
    retry_after_s=10,
    protected_users=("boss",),
)
CLASSES = Classification(
    rules=(
        Rule(name="te", job_class=JobClass.TE, match=Match(names=("te",))),
        Rule(name="keep", job_class=JobClass.EXEMPT, match=Match(names=("keep",))),
    ),
    default_notice_signal="B:USR1",
    default_exit0=ExitZero.FINISHED,
)
#: seconds that a poll counts as long where an early turn is to come; by the site's clock it takes none
SLOW_S = 60.0
#: a daemon that sleeps this long before an action has lost the lease when it wakes up
SLEEPS_S = int(ACT_WITHIN_S) + 10
NAMES = ("first", "second")


class Site:
    """Everything; `close` it in the end."""

    def __init__(self, *, nodes: int, limits: Limits, policy: Policy[None], best_effort: Policy[None] | None) -> None:
        """Begin with an empty cluster, an empty store and no daemon."""
        self.clock = Clock()
        self.slurm = FaultySlurm(clock=self.clock, nodes=nodes)
        self.limits, self.policy, self.best_effort = limits, policy, best_effort
        self.ledger = Ledger(slurm=self.slurm, limits=limits, protected=frozenset(limits.protected_users))
        self.store_is_up = True
        self.daemons: dict[str, Daemon] = {}
        self._pids: dict[str, int] = {}
        self._last_pid = 100
        self._asleep = False
        self._cleanup = ExitStack()
        folder = Path(self._cleanup.enter_context(tempfile.TemporaryDirectory()))
        path = folder / "store.sqlite"
        path.write_bytes(store_bytes())
        self.engine = open_store(f"sqlite:///{path}")
        self._cleanup.callback(self.engine.dispose)
        event.listen(self.engine, "connect", _without_sync)
        self.engine.dispose()
        # The store's code has the site's clock, and asks the site which processes are alive.
        for module in ("lease", "journal", "clock_skew"):
            self._cleanup.enter_context(patch(f"tesched_db.{module}.time", self.clock))
        system = SimpleNamespace(getpid=lambda: 1, kill=self._kill)
        for module in ("lease", "process"):
            self._cleanup.enter_context(patch(f"tesched_db.{module}.os", system))
        self._cleanup.enter_context(patch("tesched_db.process._places", lambda: ("here",)))
        self._cleanup.enter_context(patch("tesched_db.lease.place", lambda: "here"))

    def close(self) -> None:
        """Throw the store away."""
        self._cleanup.close()

    def _kill(self, pid: int, _signal: int) -> None:
        if pid not in self._pids.values():
            raise ProcessLookupError

    # Daemons.

    def start(self, name: str, *, takes_over: bool = False) -> Daemon:
        """Start a daemon, which has not polled yet."""
        self._last_pid += 1
        self._pids[name] = self._last_pid
        identity = Identity(
            pid=self._last_pid, host="login1", version="test", started_at=self.clock.time(), place="here"
        )
        daemon = Daemon(
            name=name,
            slurm=self.slurm,
            ledger=self.ledger,
            journal=SqlJournal(self.engine, identity=identity, takes_over=takes_over),
            sleeps=lambda: self._sleep(name),
            store_is_up=lambda: self.store_is_up,
        )
        daemon.loop = Loop(
            observer=daemon,
            actuator=daemon,
            journal=daemon,
            policies=in_turn(self.policy, *([self.best_effort] if self.best_effort else [])),
            limits=self.limits,
            classes=CLASSES,
            mode=Mode.ENFORCE,
            pace=Pace(poll_interval_s=2.0, backoff_max_s=8.0),
            single_reads=daemon,
            least_poll_s=SLOW_S,
            clock=self.clock.time,
            stopwatch=self.clock.monotonic,
        )
        self.daemons[name] = daemon
        return daemon

    def kill(self, name: str) -> None:
        """Kill a daemon."""
        self.daemons.pop(name, None)
        self.ledger.untimed = self.ledger.untimed or self.ledger.knows_of_jump == name
        self._pids.pop(name, None)

    def stop(self, name: str) -> None:
        """Stop a daemon in good order."""
        daemon = self.daemons.get(name)
        if daemon is not None and self.store_is_up:
            daemon.journal.resign()
        self.kill(name)

    def turn(self, name: str, faults: Sequence[Fault] = ()) -> None:
        """Let a daemon make a turn; these faults happen in it or later on. A dead one is started first."""
        daemon = self.daemons.get(name) or self.start(name)
        self._run(daemon, faults, daemon.loop.turn)

    def early_turn(self, name: str, faults: Sequence[Fault] = ()) -> None:
        """Let a daemon make an early turn, as before a poll that takes long; these faults happen in it or later on."""
        daemon = self.daemons.get(name) or self.start(name)

        def call() -> None:
            if daemon.loop.early_turn() is not None:
                self.ledger.happened["early turn"] += 1

        self._run(daemon, faults, call)

    def _run(self, daemon: Daemon, faults: Sequence[Fault], call: Callable[[], object]) -> None:
        try:
            daemon.turn(faults, call)
        except Crash:
            self.kill(daemon.name)

    def _sleep(self, name: str) -> None:
        """Let a daemon sleep in the middle of its turn, while others go on."""
        if self._asleep:
            return
        self._asleep = True
        for other in NAMES:
            if other != name:
                for _ in range(SLEEPS_S // 2):
                    self.slurm.pass_time(2)
                    self.turn(other)
        self._asleep = False

    def undo(self, faults: Sequence[Fault] = ()) -> bool:
        """Run `tesched undo`, the daemons stopped; return whether nothing is left that tesched has changed."""
        for name in tuple(self.daemons):
            self.kill(name)
        settled = False
        self.ledger.undone |= {
            (work.job_id, work.restarts)
            for work in self.slurm.jobs.values()
            if work.node
            for done in (self.ledger.noticed, self.ledger.requeued)
            if any(key[1:] == (work.job_id, work.restarts) for key in done)
        }
        daemon = self.start("undo", takes_over=True)

        def all_of_it() -> None:
            nonlocal settled
            unseen_s = self.clock.steady_s - self.ledger.good_look_s
            for turn in put_all_back(daemon.loop, unseen_s=unseen_s, sleep=lambda _: self.slurm.pass_time(1)):
                settled = turn.settled

        try:
            self._run(daemon, faults, all_of_it)
        except JournalError:
            settled = False
        finally:
            self.kill("undo")
        return settled

    def undo_later(self, seconds: int) -> bool:
        """Let time pass, then run `tesched undo`; return whether nothing is left."""
        self.slurm.pass_time(seconds)
        return self.undo()

    # People.

    def pause(self, *, paused: bool) -> None:
        """Pause tesched, or end the pause."""
        if paused:
            lease.pause(self.engine, by="ann", reason="", for_s=None)
        else:
            lease.unpause(self.engine, by="root")
        self.ledger.paused = paused

    def jump(self, by_s: float) -> None:
        """Set the host's clock."""
        self.clock.jump(by_s)
        leader = self.daemons.get(self.ledger.meant_by)
        if by_s > 0 and leader is not None and leader.looked:
            self.ledger.knows_of_jump = leader.name
        elif by_s > 0:
            self.ledger.untimed = True

    # The end.

    def heal(self) -> None:
        """Let everything work again; people take back what they did."""
        slurm = self.slurm
        slurm.reachable = slurm.partition_up = self.store_is_up = True
        slurm.down.clear()
        for daemon in self.daemons.values():
            daemon.faults.clear()
        self.pause(paused=False)
        for work in slurm.jobs.values():
            work.limited = False
            if work.held_by_user:
                work.held = work.held_by_user = False
            if work.state is JobState.SUSPENDED and work.suspended_by_user:
                work.state, work.suspended_by_user = JobState.RUNNING, False

    def left_behind(self) -> Iterator[str]:
        """Yield what is not as people want it, of jobs that have not ended."""
        for work in self.slurm.jobs.values():
            if work.finished:
                continue  # Slurm changes nothing of it any more
            for what, found, wanted in (
                ("nice", work.nice, work.nice_wanted),
                ("priority", work.explicit, work.explicit_wanted),
                ("held", work.held, work.held_by_user),
                ("suspended", work.state is JobState.SUSPENDED, work.suspended_by_user),
            ):
                if found != wanted:
                    yield f"job {work.job_id}: {what} is {found}, not {wanted}"
            if work.waits and work.bound_to:
                yield f"job {work.job_id}: it is bound to {','.join(work.bound_to)}"

    def cycle(self, seconds: int) -> None:
        """Let daemons make a turn, and time pass."""
        for name in tuple(self.daemons) or NAMES[:1]:
            self.turn(name)
        self.slurm.pass_time(seconds)
        self.ledger.check()

    def remembered(self) -> list[str]:
        """Return what the store says is under way."""
        memory = SqlJournal(self.engine).load()
        orders = [f"order {order.order_id} is {order.state}" for order in memory.open_orders()]
        waits = {job_id for job_id, work in self.slurm.jobs.items() if work.waits}
        # What a job has that has ended is kept for its user, who may requeue it.
        ended = {job_id for job_id, work in self.slurm.jobs.items() if work.finished}
        changes = (one for by_job in memory.changes.values() for one in by_job.values())
        return orders + [
            f"job {one.job_id}: {one.field} {one.by or ''}".rstrip()
            for one in changes
            # Slurm changes nothing of the nodes of a job that runs.
            if one.job_id not in ended and (one.field is not Field.NODES or (one.job_id in waits and not one.restored))
        ]


def _without_sync(connection: object, _record: object) -> None:
    """Let SQLite not wait for the disk: no test here cuts the power."""
    cursor = connection.cursor()  # type: ignore[attr-defined]
    cursor.execute("PRAGMA synchronous = OFF")
    cursor.close()
