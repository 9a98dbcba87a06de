"""Findings on Slurm: its release and cluster, what it lets us do, and which of its settings stand in the way.

Source of the settings: slurm.conf(5), and what docs/reference/slurm-levers.md measured.
"""

from __future__ import annotations

import os
import pwd
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import Node, Partition, SlurmSettings
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.can_return import loses_licenses
from tesched_core.placement.capacity_of import capacity_of
from tesched_policies.gavel.jobs import Kinds
from tesched_slurm import clients
from tesched_slurm.columns import strange
from tesched_slurm.run_command import Commands
from tesched_slurm.scontrol_cluster import read_partitions, read_settings

from tesched_daemon.config import Config
from tesched_daemon.config_checks import CONF_ADVICE, unread_conf
from tesched_daemon.doctor import bound, plugin
from tesched_daemon.doctor.finding import Finding, fail, ok, warn
from tesched_daemon.doctor.first_look import first_look
from tesched_daemon.doctor.maintenance import maintenance
from tesched_daemon.doctor.new_jobs import new_jobs
from tesched_daemon.doctor.partitions import first_in_line
from tesched_daemon.doctor.racks import planning, seen_nodes
from tesched_daemon.doctor.rate_limit import rate_limit
from tesched_daemon.plugin_fit import user_name
from tesched_daemon.settings import Mode

#: the oldest release that tesched was run with
OLDEST = (22, 5)
#: the first one with SchedulerParameters=requeue_delay
_REQUEUE_DELAY = (25, 11)
#: seconds; what is longer than these is worth a word
LONG_KILL_WAIT_S = 60
LONG_REQUEUE_DELAY_S = 60
#: words of PrivateData, and what an ordinary user does not see then: without nodes or partitions there is no poll
_HIDDEN = {"jobs": "other users' jobs", "nodes": "nodes", "partitions": "partitions", "reservations": "reservations"}
#: whole seconds are shown, so that two clocks which agree may seem to differ by one
SKEW_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """Answer of slurmctld on itself."""

    settings: SlurmSettings
    #: slurm.conf's keys as `scontrol show config` writes them
    values: Mapping[str, str]
    partitions: tuple[Partition, ...]
    #: seconds by which its clock is ahead of ours, at least and at most; None if not to be had
    ahead_s: tuple[float, float] | None


def examine(config: Config) -> Iterator[Finding]:
    """Yield what is found of Slurm; nothing but that it does not answer, if it does not."""
    conf = config.slurm.conf
    if why := unread_conf(conf):
        yield fail("slurm.conf", why, CONF_ADVICE)
        return
    commands = Commands(timeout_s=config.slurm.timeout_s, slurm_conf=conf)
    controller = _ask(commands)
    if isinstance(controller, Failure):
        advice = (
            "is slurmctld up (scontrol ping), is munge, and is this the right slurm.conf (slurm.conf, or SLURM_CONF in "
            "the environment; on a host without slurm.conf, SLURM_CONF_SERVER=HOST:PORT)? Are scontrol, squeue and "
            "scancel on PATH?"
        )
        yield fail("slurmctld", f"does not answer: {controller.message}", advice)
        return
    settings = controller.settings
    yield ok("slurmctld", f"answers: cluster {settings.cluster_name}, Slurm {settings.release}")
    yield from _release(settings)
    yield _client(config, commands)
    yield from _rights(config, commands, controller)
    yield from rate_limit(config, controller.values, user_name(), os.geteuid())
    yield _job_requeue(settings)
    yield from _job_submit(controller)
    yield from bound.examine(config, settings)
    if settings.plugin is None:
        yield _preemption(config, controller)
    yield from plugin.examine(config, settings, controller.values, user_name())
    yield first_look(config, settings)
    yield new_jobs(config, settings, user_name())
    yield _kill_wait(settings)
    yield _requeue_delay(settings)
    yield from licenses(settings)
    yield _requeue_exit(settings)
    yield _min_job_age(config, settings)
    yield from _clock(controller)
    yield from unknown_users(config.guard.protected_users)
    if controller.partitions:
        yield from _names(config, controller.partitions)
        yield from first_in_line(config, controller.partitions)
        yield from maintenance(commands, controller.partitions)
    if config.policy.has("gavel") and config.policy.table("gavel").shares:
        yield _nodes_share(config, commands)
    if config.policy.has("pdors"):
        yield from planning(config, commands, controller.values)


def _nodes_share(config: Config, commands: Commands) -> Finding:
    nodes = seen_nodes(commands)
    if isinstance(nodes, Failure):
        return warn("shards", f"whether GPUs are shared cannot be seen: {nodes.message}", "ask again")
    return shares_gpus(config, nodes)


def shares_gpus(config: Config, nodes: Sequence[Node]) -> Finding:
    """Check whether a policy of Gavel's that shares GPUs can do so on these nodes."""
    snapshot = Snapshot.of(time.time(), nodes=nodes)
    kinds = Kinds.of(snapshot, capacity_of(snapshot), config.policy.table("gavel").types)
    name = config.policy.table("gavel").allocator
    if kinds.unshared:
        page = "docs/discussion/gavel-on-slurm.md"
        advice = "give each of a type's nodes with one GPU two shards or more (gres.conf), or take the policy without"
        return warn("shards", f"{name} shares no GPUs: {kinds.unshared}", f"{advice} -sharing; {page}")
    found = ", ".join(f"{kind} ({each} a GPU)" for kind, each in zip(kinds.names, kinds.shards, strict=True) if each)
    return ok("shards", f"{name} shares GPUs of {found} among jobs that ask for shards")


def _ask(commands: Commands) -> Controller | Failure:
    before = time.time()
    said = commands.run(("scontrol", "show", "config"))
    after = time.time()
    if isinstance(said, Failure):
        return said
    partitions = commands.run(("scontrol", "-a", "-o", "show", "partition"))
    if isinstance(partitions, Failure) and partitions.kind is FailureKind.DENIED:
        partitions = ""  # `_rights` says why
    if isinstance(partitions, Failure):
        return partitions
    values = {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in said.split("\n"))}
    date = re.match(r"Configuration data as of (\d+)\s", said)
    try:
        return Controller(
            settings=read_settings(said),
            values=values,
            partitions=read_partitions(partitions),
            # It was a moment of that second, between question and answer.
            ahead_s=(int(date[1]) - after, int(date[1]) + 1 - before) if date else None,
        )
    except (KeyError, ValueError) as error:
        return strange("scontrol show", error)


def _release(settings: SlurmSettings) -> Iterator[Finding]:
    if clients.major(settings.release) < OLDEST:
        text = f"{settings.release} is older than any that tesched was run with (22.05)"
        yield warn("release", text, "try it in mode shadow first")


def _client(config: Config, commands: Commands) -> Finding:
    try:
        client = clients.choose(config.slurm.client, commands)
    except clients.NoPyslurmError as error:
        return fail("client", str(error), 'set slurm.client = "auto", or install the pyslurm of Slurm\'s release')
    text = f"{client.name}: {client.why}"
    if "cannot be used" in client.why and "not installed" not in client.why:
        return warn("client", text, "install the pyslurm of Slurm's release, or remove it")
    return ok("client", text)


def _rights(config: Config, commands: Commands, controller: Controller) -> Iterator[Finding]:
    user = user_name()
    slurm_user = re.search(r"\((\d+)\)", controller.values.get("SlurmUser", ""))
    if os.geteuid() == 0:
        yield ok("rights", f"{user} may requeue and change all users' jobs; the daemon's user is another matter")
        return
    if slurm_user and os.geteuid() == int(slurm_user[1]):
        yield ok("rights", f"{user} may requeue and change all users' jobs: SlurmUser")
        return
    # slurmctld's own copy of the accounting database: what it goes by, and there without sacctmgr.
    said = commands.run(("scontrol", "show", "assoc_mgr", "flags=users", f"users={user}"))
    users = "" if isinstance(said, Failure) else said
    found = re.search(rf"^UserName={re.escape(user)}\(.*AdminLevel=(\w+)", users, re.MULTILINE)
    if found and found[1] in {"Operator", "Administrator"}:
        yield ok("rights", f"{user} may requeue and change all users' jobs: {found[1]}")
        return
    text = f"{user} may not requeue or change other users' jobs: neither root, nor SlurmUser, nor a Slurm Operator"
    advice = (
        f"sacctmgr modify user {user} set adminlevel=operator; or run this as the daemon's user, if that is another"
    )
    if controller.values.get("AccountingStorageType", "").rpartition("/")[2] in {"none", "(null)", ""}:
        advice = (
            "there is no accounting (slurmdbd), so there are no Operators: run the daemon as SlurmUser; or run this as "
            "the daemon's user, if that is another"
        )
    yield (fail if config.mode is Mode.ENFORCE else warn)("rights", text, advice)
    if hidden := [words for word, words in _HIDDEN.items() if controller.settings.private & {word, "all"}]:
        yield fail("PrivateData", f"hides from {user}: {', '.join(hidden)}", advice)


def _job_requeue(settings: SlurmSettings) -> Finding:
    if settings.job_requeue:
        return ok("JobRequeue", "1: batch jobs may be requeued unless they say --no-requeue")
    text = "0: only jobs that were submitted with --requeue can be preempted"
    advice = "set JobRequeue=1 in slurm.conf, then scontrol reconfigure; it counts for jobs submitted from then on"
    return fail("JobRequeue", text, advice)


def _job_submit(controller: Controller) -> Iterator[Finding]:
    """Yield that the site has a plugin that may refuse what tesched changes."""
    plugins = controller.values.get("JobSubmitPlugins", "")
    if plugins and plugins != "(null)":
        text = f"JobSubmitPlugins={plugins}: it may refuse changes of jobs (slurm_job_modify)"
        yield ok("job_submit", f"{text}, of nice values, priorities, node lists and holds; `tesched status` says which")


def _preemption(config: Config, controller: Controller) -> Finding:
    kind, mode = controller.settings.preempt_type, controller.values.get("PreemptMode", "OFF")
    if kind == "preempt/none":
        return ok("PreemptType", "preempt/none: only tesched preempts jobs")
    advice = "set PreemptType=preempt/none in slurm.conf, or PreemptMode=OFF for each partition with best-effort jobs"
    pair = _preempts(controller.partitions) if kind == "preempt/partition_prio" else None
    text = f"{kind} with PreemptMode={mode}: Slurm may make jobs yield by itself, outside of tesched's limits"
    if pair is None:
        return warn("PreemptType", text, advice)
    text = f"{text}; jobs in {pair[0].name} preempt jobs in {pair[1].name} (PreemptMode={pair[1].preempt_mode})"
    return (fail if config.mode is Mode.ENFORCE else warn)("PreemptType", text, advice)


def _preempts(partitions: Sequence[Partition]) -> tuple[Partition, Partition] | None:
    """Return a partition and one on the same nodes with jobs that it preempts, by PriorityTier."""
    return next(
        (
            (high, low)
            for high in partitions
            for low in partitions
            if high.priority_tier > low.priority_tier and low.preempt_mode != "OFF" and high.nodes & low.nodes
        ),
        None,
    )


def _kill_wait(settings: SlurmSettings) -> Finding:
    text = f"{settings.kill_wait_s} s between SIGTERM and SIGKILL for a victim that does not leave by itself"
    if settings.kill_wait_s <= LONG_KILL_WAIT_S:
        return ok("KillWait", text)
    return warn("KillWait", text, f"a trial-and-error job waits for that: lower KillWait to {LONG_KILL_WAIT_S} or less")


def _requeue_delay(settings: SlurmSettings) -> Finding:
    text = f"{settings.requeue_delay_s} s before a requeued job may run again"
    if settings.requeue_delay_s <= LONG_REQUEUE_DELAY_S:
        return ok("requeue delay", text)
    new = clients.major(settings.release) >= _REQUEUE_DELAY
    setting = "SchedulerParameters=requeue_delay=5" if new else "AuthInfo=cred_expire=5"
    return warn("requeue delay", text, f"each victim pays that: add {setting} in slurm.conf")


def licenses(settings: SlurmSettings) -> Iterator[Finding]:
    """Find a release that takes the licences of a requeued job away."""
    if loses_licenses(settings):
        text = f"on Slurm {settings.release} a requeued job loses its licences: no job that has some is a victim"
        yield warn("licences", text, "update Slurm to 25.11.7 or later")


def _requeue_exit(settings: SlurmSettings) -> Finding:
    codes = ",".join(str(code) for code in sorted(settings.requeue_exit))
    if codes:
        return ok("RequeueExit", f"{codes}: with such an exit code a job that has saved its work puts itself back")
    text = "not set: a job that has saved its work can put itself back only by scontrol requeue"
    return warn("RequeueExit", text, "set RequeueExit=99, or another code that no job uses, and announce it to users")


def _min_job_age(config: Config, settings: SlurmSettings) -> Finding:
    age_s, pace = settings.min_job_age_s, config.loop
    text = f"slurmctld remembers a finished job for {age_s} s; tesched polls every {pace.poll_interval_s:g} s"
    # 0: for good.
    if age_s == 0 or age_s > 2 * max(pace.poll_interval_s, pace.backoff_max_s):
        return ok("MinJobAge", text)
    if age_s > 2 * pace.poll_interval_s:
        text = f"{text}, after failed polls every {pace.backoff_max_s:g} s: how a job ended may be missed then"
        return warn("MinJobAge", text, "raise MinJobAge in slurm.conf, or lower loop.backoff_max_s")
    text = f"{text}: how jobs ended is missed"
    return fail("MinJobAge", text, "raise MinJobAge in slurm.conf, or lower loop.poll_interval_s")


def _clock(controller: Controller) -> Iterator[Finding]:
    if controller.ahead_s is None:
        return
    least, most = controller.ahead_s
    # On a busy host an answer takes long, and shows less.
    if least <= SKEW_S and most >= -SKEW_S:
        yield ok("clock", "this host's and slurmctld's agree")
        return
    way = "ahead of" if least > 0 else "behind"
    text = f"slurmctld's is {abs(least + most) / 2:.0f} s {way} this host's: run times and waits are wrong by that"
    yield warn("clock", text, "let both hosts have their time by NTP (chronyc tracking)")


def _names(config: Config, partitions: Sequence[Partition]) -> Iterator[Finding]:
    """Find partitions that the configuration names and Slurm does not have: a rule that never matches."""
    known = [partition.name for partition in partitions]
    named = [("guard.protected_partitions", glob) for glob in config.guard.protected_partitions]
    matches = [(f"classes.rules[{row}].match", rule.match) for row, rule in enumerate(config.classes.rules)]
    for key, match in [*matches, ("classes.user_word.within", config.classes.user_word.within)]:
        named += [(f"{key}.partitions", glob) for glob in match.partitions]
    for key, glob in named:
        if not any(fnmatchcase(name, glob) for name in known):
            text = f"{key}: {glob} is the name of no partition"
            yield warn("partitions", text, f"Slurm has {', '.join(known)}")


def unknown_users(globs: Sequence[str]) -> Iterator[Finding]:
    """Find protected users that this host does not know: such a name protects no job, and the others hold."""
    for name in globs:
        if any(letter in name for letter in "*?["):
            continue
        try:
            pwd.getpwnam(name)
        except (KeyError, ValueError):
            text = f"guard.protected_users: {name} is the name of no user on this host"
            yield warn("users", text, "mend the name, if it is not one that slurmctld's host alone knows")
