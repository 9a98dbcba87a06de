"""Changes of a job's record in the simulated Slurm: what `scontrol update`, `hold`, `release` and `requeue` do to it.

Each is what Slurm 22.05.8 with priority/basic was seen to do (docs/reference/slurm-levers.md; a real one gets
the same actions in tests/cluster/test_twin_actions.py):

    nice         moves a priority that Slurm manages. Of one that was set as a number it changes nothing. A job that is
                 held, or suspended, gets the old value less the new one, 2 at least: a held one may start.
    priority     stays what it is set to, whatever nice says and over requeues, and sets nice to 0. Refused while held.
    hold         the priority is 0. What array tasks wait as one record is held as one.
    release      a new priority, also of a job that is not held, whose nice value is 0 then: the end of the queue.
    begin        it does not start before; a time that has passed is now. A held job stays held, a priority stays.
    throttle     further tasks start, or none until fewer run; no task is ended. By a task's id it changes nothing.
    dependency   it waits until the jobs that it names have ended.
    rerun        one that has ended is back in the queue with the priority that it had, one restart more.
"""

from __future__ import annotations

import re
from math import inf, nan

from tesched_core.model.actions import FailureKind, SetMarks
from tesched_core.model.field import Nodes

from tesched_sim.slurm import JobPhase, Slurm

_NUMBER = re.compile(r":(\d+)")


def set_nice(slurm: Slurm, row: int, nice: int) -> None:
    """Change a job's nice value, and its priority with it."""
    before = slurm.nice[row]
    for one in slurm.rows_of(row):
        if one in slurm.fixed:
            continue
        slurm.nice[one] = nice
        if one in slurm.held or slurm.state[one] is JobPhase.SUSPENDED:
            slurm.priority[one] = max(before - nice, 2)
            slurm.held_by_hook.discard(one)
            slurm.left_held.discard(one)
            slurm.keep_back(one, slurm.held, back=False)
        else:
            slurm.set_priority(one, slurm.priority[one] + before - nice)


def set_priority(slurm: Slurm, row: int, priority: int) -> FailureKind | None:
    """Set a job's priority as a number, which then stays; a job that is held is refused that."""
    if row in slurm.held:
        return FailureKind.REFUSED
    for one in slurm.rows_of(row):
        slurm.fixed.add(one)
        slurm.nice[one] = 0
        slurm.set_priority(one, priority)
    return None


def hold(slurm: Slurm, row: int) -> None:
    """Keep a waiting job from starting: its priority is 0."""
    for one in slurm.rows_of(row):
        slurm.held_by_user.discard(one)
        slurm.keep_back(one, slurm.held, back=True)
        slurm.priority[one] = 0


def hold_by_user(slurm: Slurm, row: int) -> None:
    """Hold a job for its user: the reason is another one, until an admin holds it, or it is released."""
    hold(slurm, row)
    slurm.held_by_user.update(slurm.rows_of(row))


def release(slurm: Slurm, row: int) -> None:
    """End a hold; the job's priority is worked out anew, also of one that was not held."""
    for one in slurm.rows_of(row):
        if one not in slurm.held:
            slurm.nice[one] = 0
        slurm.fixed.discard(one)
        slurm.held_by_hook.discard(one)
        slurm.left_held.discard(one)
        slurm.set_priority(one, slurm.released_priority(one))
        slurm.keep_back(one, slurm.held, back=False)


def set_nodes(slurm: Slurm, row: int, nodes: Nodes) -> None:
    """Bind a waiting job to nodes, or to none, and set how many it wants where that is said."""
    if nodes.count is not None:
        slurm.nodes_wanted[row], slurm.nodes_most[row] = nodes.count.least, nodes.count.most
    index = {name: node for node, name in enumerate(slurm.workload.machines.names)}
    slurm.bind(row, tuple(index[name] for name in nodes.names))


def set_begin(slurm: Slurm, row: int, begin_s: float) -> None:
    """Let a waiting job not start before this time; one that Slurm has just requeued waits for Slurm's delay, too."""
    for one in slurm.rows_of(row):
        first_s = slurm.queued_s[one] + slurm.behaviour.requeue_delay_s if slurm.restarts[one] else slurm.now
        slurm.put_off(one, max(begin_s, float(first_s), slurm.now))


def set_throttle(slurm: Slurm, row: int, tasks: int) -> None:
    """Set how many tasks of an array may run at once, 0: any number; of any other job it is taken and does nothing."""
    arrays = slurm.arrays
    if arrays is None or arrays.of[row] < 0 or arrays.record_of(row) != row:
        return
    arrays.throttle[arrays.of[row]] = tasks
    slurm.throttle(arrays.of[row])
    slurm.stirred = True


def set_dependency(slurm: Slurm, row: int, text: str) -> None:
    """Let a waiting job wait until the jobs that are named have ended (`afterok:7:8`); empty: for none."""
    for one in slurm.rows_of(row):
        slurm.dependency.pop(one, None)
        if text:
            slurm.dependency[one] = text
        slurm.keep_back(one, slurm.dependent, back=_is_awaited(slurm, text))


def see_dependencies(slurm: Slurm) -> None:
    """Let those jobs start of which all that they wait for has ended."""
    for row in sorted(slurm.dependent):
        if not _is_awaited(slurm, slurm.dependency[row]):
            slurm.keep_back(row, slurm.dependent, back=False)
            del slurm.dependency[row]


def set_marks(slurm: Slurm, action: SetMarks) -> None:
    """Write the marks file anew: which jobs the plugin may preempt, and for which TE jobs it does."""
    slurm.marks = {line.job_id - 1: line for line in action.marks}
    slurm.barred, slurm.te_wait_s = frozenset(action.barred), float(action.wait_s)
    slurm.came_back = {one.job_id - 1: inf if one.until is None else float(one.until) for one in action.came_back}
    slurm.stirred = True


def _is_awaited(slurm: Slurm, text: str) -> bool:
    """Check whether a job that is named has not ended; of one that Slurm does not know nothing is awaited."""
    named = (int(found) - 1 for found in _NUMBER.findall(text))
    return any(slurm.state[row] is not JobPhase.DONE for row in named if 0 <= row < len(slurm.state))


def rerun(slurm: Slurm, row: int) -> None:
    """Put a job that has ended back in the queue; it goes on from what it had saved before its last run ended."""
    slurm.done -= 1
    slurm.failed.discard(row)
    slurm.end_s[row] = nan
    slurm.ran_on[row] = ()
    slurm.restarts[row] += 1
    slurm.requeued(row)
