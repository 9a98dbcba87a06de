"""The rules of which jobs Slurm would start again, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_RETURN = "core/tesched_core/placement/can_return.py"

_LIMITS = "core/tesched_core/placement/within_limits.py"
_KNOWN = "core/tesched_core/model/slurm_limits.py"
_AHEAD = "daemon/tesched_daemon/submission/limits_ahead.py"
_READ = "slurm/tesched_slurm/scontrol_limits.py"
_IN_DATABASE = "slurm/tesched_slurm/sacctmgr_qos.py"
_MEMBERS = "slurm/tesched_slurm/group_members.py"

RETURN_MUTATIONS = (
    Mutation("back: a deadline", _RETURN, "if job.deadline is not None:", "if False:"),
    Mutation("back: a partition that is up", _RETURN, 'partition.state != "UP" or', ""),
    Mutation("back: its time limit", _RETURN, "job.time_limit_s > longest", "False"),
    Mutation("back: no time limit", _RETURN, "job.time_limit_s is None or ", ""),
    Mutation("back: its most nodes", _RETURN, "fewest > (partition.max_nodes or fewest)", "False"),
    Mutation("back: any partition", _RETURN, "not any(_takes(one, job, ", "not all(_takes(one, job, "),
    Mutation("back: its reservation", _RETURN, "and reservation.end_time > now", ""),
    Mutation("back: its licences", _RETURN, "< _LOSE_LICENSES[1]", "<= _LOSE_LICENSES[0]"),
    Mutation(
        "back: its account", _RETURN, "if accounts and not _is_among(job.account, accounts, snapshot):", "if False:"
    ),
    Mutation("back: children of an account", _RETURN, " or snapshot.settings.release.startswith(_NO_CHILDREN)", ""),
    Mutation("back: accounts that are not known", _RETURN, "return not above or not", "return not"),
    Mutation("back: accounts above it", _RETURN, "return not above or not", "return not above or True or not"),
    Mutation("back: an account in any case", _RETURN, "not _small(accounts).isdisjoint", "not accounts.isdisjoint"),
    Mutation(
        "back: an account that is denied", _RETURN, "if not accounts and job.account in", "if False and job.account in"
    ),
    Mutation("back: Allow before Deny", _RETURN, "if not accounts and job.account in", "if job.account in"),
    Mutation("back: its QOS", _RETURN, "return not qos.isdisjoint(own) if qos else", "return"),
    Mutation("back: a QOS in any case", _RETURN, "frozenset(name.lower() for name in names)", "names"),
    Mutation("back: a QOS that is denied", _RETURN, "not own <= _small(access.deny_qos)", "True"),
    Mutation("back: where accounts are checked", _RETURN, "snapshot.settings.limits_enforced and not", "not"),
    Mutation("back: any QOS", _RETURN, "(own) if qos else", "(own) if True else"),
    Mutation("back: a partition for root", _RETURN, "(access.root_only and job.user != _ROOT) or ", ""),
    Mutation("back: root everywhere", _RETURN, "access.root_only and job.user != _ROOT", "access.root_only"),
    Mutation(
        "back: a partition for reservations", _RETURN, " or (access.needs_reservation and not job.reservation)", ""
    ),
    Mutation(
        "back: in its reservation",
        _RETURN,
        "access.needs_reservation and not job.reservation",
        "access.needs_reservation",
    ),
    Mutation("back: its groups", _RETURN, "if access.allow_groups and job.user != _ROOT", "if False"),
    Mutation(
        "back: root in any group", _RETURN, "if access.allow_groups and job.user != _ROOT", "if access.allow_groups"
    ),
    Mutation("back: its memory on a node", _RETURN, "(request.mem_per_node_mib or 0) >", "0 >"),
    Mutation("back: its CPUs on a node", _RETURN, "request.min_cpus_per_node >", "0 >"),
    Mutation("back: a QOS that is gone", _RETURN, "if not job.qos and", "if False and"),
    Mutation(
        "back: where each job has a QOS",
        _RETURN,
        "if not job.qos and _ENFORCE_QOS & snapshot.settings.enforced:",
        "if not job.qos:",
    ),
    Mutation(
        "back: limits of its account and QOS", _RETURN, "one.doubt or is_within_limits", "True or is_within_limits"
    ),
    Mutation("back: limits in any partition", _RETURN, "if partitions and not any(\n", "if partitions and not all(\n"),
    Mutation("back: limits in a partition that is not read", _RETURN, "one.doubt or is_within", "is_within"),
    Mutation("back: its nodes", _RETURN, "partition.nodes.issuperset(job.nodes)", "True"),
    Mutation("back: nodes that are not read", _RETURN, "not partition.nodes or ", ""),
    Mutation("back: its features", _RETURN, "    if not job.request.features:", "    if True:"),
    Mutation(
        "back: features of several nodes",
        _RETURN,
        "    except UnsupportedConstraintError:\n        return True",
        "    except UnsupportedConstraintError:\n        return False",
    ),
    Mutation(
        "stuck: a limit of one job",
        "core/tesched_core/intake/pending_reason.py",
        "|(Assoc|QOS)Max\\w+Per(Job|Node)|",
        "|",
    ),
    Mutation(
        "stuck: as Slurm says",
        "core/tesched_core/intake/pending_reason.py",
        "is not None\n\n\ndef resources",
        "is None\n\n\ndef resources",
    ),
    Mutation("stuck: a limit on the least", "core/tesched_core/intake/pending_reason.py", "|QOSMin\\w+", ""),
    Mutation("limits: a QOS that is not known", _LIMITS, "        return\n    in_order", "        pass\n    in_order"),
    Mutation("limits: of a QOS", _LIMITS, "yield from ((kind, tres, most)", "yield from ((kind, tres, 10**9)"),
    Mutation("limits: of its partition's QOS", _LIMITS, "(job.qos, partition.access.qos)", "(job.qos, '')"),
    Mutation("limits: a QOS in any case", _LIMITS, "name.lower() for name in names if", "name for name in names if"),
    Mutation("limits: the looser of two QOS", _LIMITS, "else max)(number", "else min)(number"),
    Mutation("limits: the least of two QOS", _LIMITS, "(min if key", "(max if key"),
    Mutation("limits: the first of two QOS", _LIMITS, "_first if in_order else", "_loosest if in_order else"),
    Mutation("limits: over the partition's QOS", _LIMITS, '"overpartqos" in limits.rules_of(own).flags', "False"),
    Mutation("limits: a factor", _LIMITS, "_multiplied(most, factors) if kind in _MULTIPLIED else most", "most"),
    Mutation("limits: a factor of some kinds", _LIMITS, "if kind in _MULTIPLIED else most", ""),
    Mutation("limits: a factor of 0", _LIMITS, " and factors[0] > 0", ""),
    Mutation("limits: the first factor", _LIMITS, "int(limit * factors[0])", "int(limit * factors[-1])"),
    Mutation("limits: a safe usage factor", _LIMITS, " // 60 * factor)", " // 60)"),
    Mutation("limits: a factor that is safe", _KNOWN, ' if "usagefactorsafe" in self.flags else 1.0', ""),
    Mutation("limits: percentages", _LIMITS, " if (kind, tres) not in relative)", ")"),
    Mutation(
        "limits: percentages of the first QOS",
        _LIMITS,
        "for name in reversed(names) for key",
        "for name in names for key",
    ),
    Mutation("limits: no percentage of time", _LIMITS, "if key[1] and ", "if "),
    Mutation("limits: rules that came since", _READ, "rules=found.rules, counted={}", "rules=found.rules"),
    Mutation(
        "limits: unread since",
        _READ,
        "self._unread.since if self._unread is not None and",
        "0.0 if self._unread is None and",
    ),
    Mutation("limits: unread and kept", _READ, "kept=bool(self._read.qos)", "kept=True"),
    Mutation("limits: hidden users", _READ, "if any(one.user in users for", "if True or any(one.user in users for"),
    Mutation("limits: an answer of another form", _READ, "elif not read.qos and not read.associations:", "elif False:"),
    Mutation(
        "limits: none is missed where none is enforced",
        _READ,
        "            self._unread = None\n        own",
        "            pass\n        own",
    ),
    Mutation(
        "limits: unread flags since",
        _IN_DATABASE,
        "self.unread.since if self.unread is not None and",
        "self.clock() if",
    ),
    Mutation("limits: why flags are not read, in short", _IN_DATABASE, "shortened(message, MOST_SAID)", "message"),
    Mutation("limits: why limits are not read, in short", _READ, "shortened(message, MOST_SAID)", "message"),
    Mutation(
        "limits: users with a strange name are missed", _IN_DATABASE, "if strangers else None", "if False else None"
    ),
    Mutation(
        "limits: too many users are missed",
        _IN_DATABASE,
        "allowed={}, lacks=(LimitKind.ALLOWED_QOS, said))",
        "allowed={})",
    ),
    Mutation(
        "limits: none is kept of users that were not queried",
        _IN_DATABASE,
        "answer.allowed is None and bool(allowed)",
        "bool(allowed)",
    ),
    Mutation("limits: flags that were read", _IN_DATABASE, "return _Answer(rules=rules, lacks", "return _Answer(lacks"),
    Mutation(
        "limits: users' QOS that were read before",
        _IN_DATABASE,
        "self._read.allowed if answer.allowed is None",
        "{} if answer.allowed is None",
    ),
    Mutation(
        "limits: what raises fails no poll", _IN_DATABASE, "except Exception as error:", "except OSError as error:"
    ),
    Mutation(
        "limits: nor does a missing thread", _IN_DATABASE, "except RuntimeError as error:", "except OSError as error:"
    ),
    Mutation("limits: users by parts", _IN_DATABASE, "USERS_AT_ONCE = 256", "USERS_AT_ONCE = 1000"),
    Mutation("limits: all parts count", _IN_DATABASE, "allowed |= read", "allowed = read"),
    Mutation("limits: long names are not sent", _READ, "len(names) > _MOST_NAMES", "False"),
    Mutation("limits: slurmdbd queried seldom", _IN_DATABASE, "or now - self._queried_at > AGE_S", "or True"),
    Mutation("limits: slurmdbd queried once", _IN_DATABASE, "if self._query is None and (", "if True and ("),
    Mutation(
        "limits: slurmdbd away",
        _IN_DATABASE,
        "        kind, message = answer",
        "        self._read = NOTHING_SAID\n        kind, message = answer",
    ),
    Mutation("limits: no poll waits", _IN_DATABASE, "is not None and first:", "is not None:"),
    Mutation("back: a QOS lifts MaxTime", _RETURN, 'None if "partitiontimelimit" in lifted else ', ""),
    Mutation("back: a QOS lifts MaxNodes", _RETURN, '"partitionmaxnodes" not in lifted and ', ""),
    Mutation("back: a QOS lifts MinNodes", _RETURN, '"partitionminnodes" in lifted or ', ""),
    Mutation("limits: a QOS replaces MaxJobs", _LIMITS, 'kind == "MaxJobs" and replaces_max_jobs', "False"),
    Mutation("limits: a QOS replaces others", _LIMITS, " and (kind, tres) not in of_qos", ""),
    Mutation("limits: of accounts above", _LIMITS, "(own.limits, *above)", "(own.limits,)"),
    Mutation("limits: of one job, from above", _LIMITS, ' and not kind.startswith("Grp")', " and False"),
    Mutation("limits: jobs", _LIMITS, 'if kind in _JOBS or kind == "GrpWall":', "if False:"),
    Mutation("limits: a limit of 1", _LIMITS, "return limit < 1\n", "return limit < 2\n"),
    Mutation(
        "limits: without a time limit",
        _LIMITS,
        "return minutes is None or minutes >",
        "return minutes is not None and minutes >",
    ),
    Mutation("limits: as much as allowed", _LIMITS, "return held > limit", "return held >= limit"),
    Mutation("limits: on each node", _LIMITS, "held // max(len(job.allocation), 1) > limit", "held > limit"),
    Mutation("limits: what has been used", _LIMITS, "return limit < 1 and _may_hold(job, tres)", "return False"),
    Mutation(
        "limits: used up, of what it has not", _LIMITS, "return limit < 1 and _may_hold(job, tres)", "return limit < 1"
    ),
    Mutation("limits: used up, however much it has", _LIMITS, "tres in _ALWAYS_HELD or bool", "bool"),
    Mutation("limits: used up, its licences", _LIMITS, "_COUNT.split(one)[0] == name", "name in one"),
    Mutation("limits: minutes", _LIMITS, "held * minutes > limit", "held > limit"),
    Mutation("limits: nothing left", _LIMITS, "return limit < 1 and _may_hold", "return limit == 0 and _may_hold"),
    Mutation(
        "limits: safe without a time limit",
        _LIMITS,
        "    if minutes is None:\n        return _may",
        "    if minutes is None:\n        return not _may",
    ),
    Mutation(
        "limits: one job's minutes without a time limit",
        _LIMITS,
        'if kind == "MaxTRESMinsPJ" and minutes is None:',
        "if False:",
    ),
    Mutation("limits: no time limit of a factor of 0", _LIMITS, "else None if factor else 0", "else None"),
    Mutation("limits: usage that counts as none", _LIMITS, "if rules.usage_factor == 0:", "if False:"),
    Mutation(
        "limits: a wall time counts all the same",
        _LIMITS,
        'if each[0] != "GrpTRESMins")',
        "if each[0] not in OF_USAGE)",
    ),
    Mutation("limits: safe", _LIMITS, "    if safe and any(_may_exceed", "    if False and any(_may_exceed"),
    Mutation(
        "limits: safe of what is used",
        _LIMITS,
        " for each in limits_on if each[0] in OF_USAGE",
        " for each in limits_on",
    ),
    Mutation(
        "limits: safe where it is enforced", _RETURN, "not _ENFORCE_SAFE.isdisjoint(snapshot.settings.enforced)", "True"
    ),
    Mutation("limits: what is left", _READ, "- (_whole(used) if kind in OF_USAGE else 0)", "- 0"),
    Mutation("limits: what is left of usage alone", _READ, "if kind in OF_USAGE else 0", ""),
    Mutation("back: a QOS that was taken", _RETURN, "        return QOS_TAKEN", "        pass"),
    Mutation(
        "back: a QOS that was taken where it counts",
        _RETURN,
        "if job.qos and _ENFORCE_QOS & snapshot.settings.enforced and not _may",
        "if job.qos and not _may",
    ),
    Mutation("back: a QOS that is not known to be allowed", _KNOWN, "return not allowed or qos", "return qos"),
    Mutation(
        "back: QOS of users with plain names",
        _IN_DATABASE,
        "sorted(filter(PLAIN_NAME.fullmatch, users))",
        "sorted(users)",
    ),
    Mutation("back: QOS of its own cluster", _IN_DATABASE, " and of_cluster.lower() == cluster.lower()", ""),
    Mutation(
        "back: its cluster in any case", _IN_DATABASE, "of_cluster.lower() == cluster.lower()", "of_cluster == cluster"
    ),
    Mutation("back: a cluster that is not known", _IN_DATABASE, "if not cluster or not named", "if not named"),
    Mutation("limits: the least", _LIMITS, "return kind == _LEAST and held < limit", "return False"),
    Mutation("limits: a TRES that is not known", _LIMITS, 'if kind == "gres" else None', "if True else None"),
    Mutation(
        "limits: an association of a partition", _KNOWN, "return found.get((account, user, partition)) or ", "return "
    ),
    Mutation(
        "limits: accounts up to the topmost",
        _KNOWN,
        "                return tuple(found)\n        return ()",
        "                return tuple(found)\n        return tuple(found)",
    ),
    Mutation("limits: a user that is not known", _KNOWN, "user in self.users and ", ""),
    Mutation("limits: a group that is not known", _KNOWN, " and groups <= self.members.keys()", ""),
    Mutation("limits: no limit", _READ, "if number.isdecimal() and bool", "if bool"),
    Mutation(
        "limits: a failed read",
        _READ,
        "            self._lacks(LimitKind.LIMITS, read.message)",
        "            self._read = NOTHING_KNOWN\n            self._lacks(LimitKind.LIMITS, read.message)",
    ),
    Mutation("limits: read seldom", _READ, "now - self._tried_at > self.age_s", "True"),
    Mutation("limits: where they are enforced", _READ, "bool(_ENFORCE_LIMITS & settings.enforced)", "True"),
    Mutation("limits: forgotten after a while", _READ, " or now - self._known_at > FORGOTTEN_AFTER_S", ""),
    Mutation("limits: none once they are not enforced", _READ, "not enforced or now - self", "now - self"),
    Mutation("limits: a user's strange name", _READ, " or not all(map(PLAIN_NAME.fullmatch, users))", ""),
    Mutation("limits: the account above", _READ, "above[1] if above", "above[0] if above"),
    Mutation("groups: a primary group", _MEMBERS, "{primary.get(line[0]), *line[1:]}", "{*line[1:]}"),
    Mutation("groups: where they are needed", _MEMBERS, "    if not users:", "    if False:"),
    Mutation("groups: half an answer", _MEMBERS, "[] if ended.stopped else ", ""),
    Mutation("ask: the partition's QOS first", _AHEAD, "else (of_partition, own)", "else (own, of_partition)"),
    Mutation("ask: a QOS' limit replaces others", _AHEAD, "else key in set_by_qos or kind", "else kind"),
    Mutation("ask: MaxJobs of an association is replaced", _AHEAD, "set_by_qos or kind in replaced", "set_by_qos"),
    Mutation("ask: Grp limits alone of accounts", _AHEAD, ' if one.kind.startswith("Grp")]', "]"),
    Mutation("ask: a node counts once", _AHEAD, "amount - len(taken.intersection(self.wanted.nodes))", "amount"),
    Mutation("ask: what is not known is named", _AHEAD, "amount is None or holder.is_relative", "amount is None"),
    Mutation("ask: what is in use counts", _AHEAD, "(amount > 0 and amount + used > most)", "False"),
    Mutation("ask: each task is submitted", _AHEAD, "used + self.wanted.tasks > most", "used + 1 > most"),
    Mutation("ask: a time that is not said", _AHEAD, "    if not wanted.is_timed:\n", "    if False:\n"),
    Mutation("ask: minutes give no time", _AHEAD, "sorted(_MINUTES if denies else ())", "sorted(_MINUTES)"),
    Mutation("ask: a given time above MaxTime", _AHEAD, "given.minutes * _MINUTE_S > partition", "0 > partition"),
)
