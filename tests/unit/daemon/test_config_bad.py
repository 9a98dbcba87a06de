"""Several hundred configurations that cannot be used, made from the list of all keys.

Each ends with status 2 and one line: the file, the key, what would be right. A key that is added to the configuration
is tried by itself.

Over 400 lines: most of them are lists of bad values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from click.testing import CliRunner
from tesched_cli.main import main
from tesched_core.intake.class_rules import Rule
from tesched_daemon.config import Config
from tesched_policies.pdors.workload import TrainingKind
from tesched_policies.registry import BeEntry

from tests import collected

#: the least that a rule needs
RULE = {"name": '"a"', "job_class": '"te"'}


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key, and what it takes."""

    #: "guard.cool_down_s", "classes.rules[0].match.users"
    name: str
    #: bool, int, float, str, an enumeration, list, or dict for a table
    kind: type[Any]

    @property
    def bare(self) -> str:
        """Return the last part of its name."""
        return self.name.rpartition(".")[2]

    def with_value(self, value: str, bare: str = "") -> str:
        """Return a file that gives it a value, under another name if one is given."""
        bare = bare or self.bare
        table = self.name.rpartition(".")[0]
        below = re.fullmatch(r"classes\.rules\[0\](?:\.(\w+))?", table)
        if not below:
            return f"[{table}]\n{bare} = {value}\n" if table else f"{bare} = {value}\n"
        given = {bare: value} if below[1] is None else {below[1]: f"{{ {bare} = {value} }}"}
        return "[[classes.rules]]\n" + "".join(f"{name} = {text}\n" for name, text in {**RULE, **given}.items())


class WordOrBool:
    """Kind of a key that takes "auto" or a boolean."""


def keys_of(table: type[Any], prefix: str = "") -> Iterator[Key]:
    """Yield all keys of a table, and of the tables below it."""
    hints = get_type_hints(table)
    for name, hint in ((field.name, hints[field.name]) for field in fields(table)):
        given = get_args(hint)[0] if get_origin(hint) in {Union, UnionType} else hint
        if get_origin(given) is Literal:
            yield Key(name=f"{prefix}{name}", kind=WordOrBool)
        elif is_dataclass(given):
            assert isinstance(given, type)
            yield Key(name=f"{prefix}{name}", kind=dict)
            yield from keys_of(given, f"{prefix}{name}.")
        elif given == tuple[Rule, ...]:
            yield Key(name=f"{prefix}{name}", kind=dict)
            yield from keys_of(Rule, f"{prefix}{name}[0].")
        elif given in {tuple[TrainingKind, ...], tuple[BeEntry, ...]}:
            yield Key(name=f"{prefix}{name}", kind=dict)
        else:
            yield Key(name=f"{prefix}{name}", kind=list if get_origin(given) is tuple else given)


KEYS = tuple(keys_of(Config))
TABLES = ("classes.rules", "classes.notice_rules", "policy.pdors.workloads")
RIGHT = {
    WordOrBool: 'must be "auto" or true or false',
    bool: "must be true or false",
    int: "must be a whole number",
    float: "must be a number",
    str: "must be a text in quotes",
    list: "must be a list of texts",
    dict: "must be a table with keys of ",
}
WRONG = {
    WordOrBool: ('"yes"', '""', "1", "[]", "{}"),
    bool: ('"yes"', "1", "[]", "{}"),
    int: ('"3"', "1.5", "true", "[3]"),
    float: ('"3"', "true", "[3]", "2026-01-01"),
    str: ("3", "false", '["x"]', "2026-01-01T00:00:00"),
    list: ('"root"', "3", "true", "{}"),
    dict: ('"x"', "3", "[]"),
}


def wrong_types() -> Iterator[tuple[str, str, str]]:
    """Yield for each key and each wrong value: the file, the key, what would be right."""
    for key in KEYS:
        if key.name == "policy.be":
            continue  # it has several forms, which BAD_ENTRIES has
        if key.name in TABLES:
            for value in ('"x"', "3", "{}"):
                yield key.with_value(value), key.name, "must be a list of tables"
        elif issubclass(key.kind, StrEnum):
            words = ", ".join(f'"{word}"' for word in key.kind)
            for value in ('"bogus"', '""', "3", "[]"):
                yield key.with_value(value), key.name, f"must be one of {words}"
        else:
            for value in WRONG[key.kind]:
                yield key.with_value(value), key.name, RIGHT[key.kind]
        if key.kind is list and key.name not in TABLES:
            yield key.with_value('["good", 3]'), f"{key.name}[1]", "must be a text in quotes"


def misspelt() -> Iterator[tuple[str, str, str]]:
    """Yield for each key a file in which its last letter stands twice."""
    for key in KEYS:
        bare = key.bare + key.bare[-1]
        # What it holds does not matter; a table's name is checked before what is in it.
        yield key.with_value("1", bare), f"{key.name}{key.bare[-1]}", f"unknown key; did you mean {key.name}?"


def out_of_range() -> Iterator[tuple[str, str, str]]:
    """Yield for each number what is below zero, and what is none."""
    for key in KEYS:
        if key.kind in {int, float}:
            # Every number of this configuration is an amount; the limits are shown in one of two ways.
            for value in ("-1", "-9223372036854775809") if key.kind is int else ("-1", "-0.001", "inf", "-inf", "nan"):
                yield key.with_value(value), key.name, "must be"


#: the bounds that are not zero: the file, the key, what would be right
BOUNDS = [
    ("[slurm]\ntimeout_s = 0.4", "slurm.timeout_s", "between 0.5 and 300 seconds, not 0.4"),
    ("[slurm]\ntimeout_s = 301", "slurm.timeout_s", "between 0.5 and 300 seconds, not 301"),
    (f"[slurm]\ntimeout_s = 1{'0' * 400}", "slurm.timeout_s", "must be a number"),
    ("[slurm]\nconf = 'slurm.conf'", "slurm.conf", "an absolute path"),
    ('[slurm]\nconf = "/etc/slurm\\u0000.conf"', "slurm.conf", "an absolute path"),
    ("[loop]\npoll_interval_s = 0.09", "loop.poll_interval_s", "between 0.1 and 3600 seconds"),
    ("[loop]\npoll_interval_s = 3601", "loop.poll_interval_s", "between 0.1 and 3600 seconds"),
    ("[loop]\nbackoff_max_s = 1", "loop.backoff_max_s", "between poll_interval_s and 3600 seconds, not 1"),
    ("[loop]\nbackoff_max_s = 3601", "loop.backoff_max_s", "between poll_interval_s and 3600 seconds"),
    ("[reports]\nspool = 'spool'", "reports.spool", "empty or an absolute path"),
    ('[reports]\nspool = "/shared\\u0000"', "reports.spool", "empty or an absolute path"),
    ("[reports]\nsocket = 'login1'", "reports.socket", 'it is "host:port", ":port" or an absolute path'),
    ("[reports]\nsocket = ':99999'", "reports.socket", 'it is "host:port", ":port" or an absolute path'),
    (
        "[metrics]\nlisten = '9817'",
        "metrics.listen",
        'must be empty, "host:port" or the absolute path of a socket, such as',
    ),
    (
        "[metrics]\nlisten = '/'",
        "metrics.listen",
        'or the absolute path of a socket, such as "127.0.0.1:9817", not "/"',
    ),
    ("[metrics]\nlisten = '/run/'", "metrics.listen", "or the absolute path of a socket, such as"),
    ("[metrics]\nlisten = '/run/..'", "metrics.listen", "or the absolute path of a socket, such as"),
    ("[reports]\nsocket = '/'", "reports.socket", "a path ends with the name of a socket, such as"),
    ("[metrics]\nlisten = ':9817'", "metrics.listen", "must name the address to listen on, such as"),
    ("[metrics]\nlisten = 'a..b:9817'", "metrics.listen", "must name a host, such as"),
    (f"[metrics]\nlisten = '{64 * 'x'}.de:9817'", "metrics.listen", "between dots, has 1 to 63 characters"),
    ("[reports]\nsocket = 'a..b:6820'", "reports.socket", "between dots, has 1 to 63 characters"),
    ("[metrics]\nlisten = '127.0.0.1:0'", "metrics.listen", 'such as "127.0.0.1:9817"'),
    ("[reports]\nmunge_socket = 'munge'", "reports.munge_socket", "empty or an absolute path"),
    ("[policy.fitgpp]\ns = 1000.1", "policy.fitgpp.s", "between 0 and 1000, not 1000.1"),
    ("[policy.patient]\npatience_s = 86401", "policy.patient.patience_s", "between 0 and 86400 seconds"),
    (
        "[policy.fitgpp]\nquality = 1.0",
        "policy.fitgpp.quality",
        "must be 0 where no policy of policy.be foretells gains",
    ),
    (
        '[policy]\nbe = "slaq"\n[policy.fitgpp]\nquality = 1000.5',
        "policy.fitgpp.quality",
        "between 0 and 1000, not 1000.5",
    ),
    ("[policy.slaq]\nepoch_s = 0.5", "policy.slaq.epoch_s", "between 1 and 86400 seconds"),
    ("[policy.slaq]\nleast = 0", "policy.slaq.least", "between 1 and 10000 workers"),
    ("[policy.slaq]\nthrottle_step = 0", "policy.slaq.throttle_step", "between 1 and 10000 workers"),
    ("[policy.slaq]\nthrottle_cool_down_s = -1.0", "policy.slaq.throttle_cool_down_s", "between 0 and 86400 seconds"),
    ("[policy.slaq]\npriority_step = 101.0", "policy.slaq.priority_step", "between 0 and 100"),
    ("[policy.slaq]\npriority_cool_down_s = 1e6", "policy.slaq.priority_cool_down_s", "between 0 and 86400 seconds"),
    ("[policy.pdors]\nslot_s = 0.5", "policy.pdors.slot_s", "between 1 and 86400 seconds"),
    ("[policy.pdors]\nslots = 1", "policy.pdors.slots", "between 2 and 1000"),
    ("[policy.pdors]\nfloor = 0.2", "policy.pdors.floor", "between 1e-12 and 0.1, not 0.2"),
    ("[policy.rand]\nseed = 9223372036854775808", "policy.rand.seed", "between 0 and 9223372036854775807"),
    ("[classes]\ndefault_grace_period_s = 86401", "classes.default_grace_period_s", "between 0 and 86400 seconds"),
    (
        "[classes.user_word]\nmax_grace_period_s = 86401",
        "classes.user_word.max_grace_period_s",
        "between 0 and 86400 seconds",
    ),
    ("[classes]\ndefault_notice_signal = 'KILL'", "classes.default_notice_signal", "one of HUP, INT, USR1, USR2, TERM"),
    (
        "[classes]\ndefault_notice_signal = 'SIGUSR1'",
        "classes.default_notice_signal",
        'CONT, alone or after B: or full:, not "SIGUSR1"',
    ),
    (
        "[classes]\ndefault_exit0 = 'twice'",
        "classes.default_exit0",
        'must be one of "finished", "again", "slurm", not "twice"',
    ),
    ("[classes]\ndefault_notice_signal = ''", "classes.default_notice_signal", "one of HUP, INT, USR1, USR2, TERM"),
    ("[store]\nurl = 'mysql://me@db/x'", "store.url", "SQLite or PostgreSQL, not mysql"),
    ("[store]\nurl = 'postgresql://me:geheim@db:port/x'", "store.url", "the port in the state store's URL is no"),
    ("[store]\nurl = ''", "store.url", "sqlite:////path or postgresql://"),
    ("[store]\nurl = '/var/lib/tesched.sqlite'", "store.url", "sqlite:////path or postgresql://"),
    ("[store]\nurl = 'sqlite://'", "store.url", "needs a path, as in sqlite:////"),
    ("[store]\nurl = 'sqlite:///:memory:'", "store.url", "needs a path, as in sqlite:////"),
    ('[store]\nurl = "sqlite:////a\\u0000b"', "store.url", "must be without the character NUL"),
]

#: what the lists made of the keys do not have
OTHERS = [
    ("mood = 'shadow'", "mood", "unknown key; did you mean mode?"),
    ("mode = 'on'", "mode", 'must be one of "observe", "shadow", "enforce", not "on"'),
    ("poll_interval_s = 2", "poll_interval_s", "did you mean loop.poll_interval_s?"),
    ("guard = 3", "guard", "not 3"),
    ("[guard]\nmax_preemptions = 1", "guard.max_preemptions", "did you mean guard.max_preemptions_per_job?"),
    ("[guard]\nmin_run_time_s = 'long'", "guard.min_run_time_s", 'must be a number, not "long"'),
    ("[guard]\nretry_after_s = inf", "guard.retry_after_s", "must be finite, and at least 0"),
    (
        "[guard]\nmax_slowdown = inf",
        "guard.max_slowdown",
        "must be finite, and at least 1: no slowdown is below, not inf",
    ),
    ("[loop]\npoll_interval_s = 60\nbackoff_max_s = 30", "loop.backoff_max_s", "between poll_interval_s and 3600"),
    (
        "[[classes.rules]]\nname='a'\njob_class='te'\nmatch={user='x'}",
        "classes.rules[0].match.user",
        "did you mean classes.rules[0].match.users?",
    ),
    (
        "[[classes.rules]]\nname='a'\njob_class='te'\n[[classes.rules]]\nname='a'\njob_class='be'",
        "classes.rules",
        "two rules are named 'a'",
    ),
]

RULE_HEAD = "[[classes.rules]]\nname = 'a'\njob_class = 'te'\n"
BAD_RULES = [
    ("[[classes.rules]]\njob_class = 'te'", "classes.rules[0]", "lacks the key name: a text in quotes"),
    ("[[classes.rules]]\nname = 'a'", "classes.rules[0]", 'lacks the key job_class: one of "te", "be", "exempt"'),
    ("[[classes.rules]]", "classes.rules[0]", "lacks the key name"),
    ("[[classes.rules]]\nname = ''\njob_class = 'te'", "classes.rules[0].name", "needs a name that is not empty"),
    (f"{RULE_HEAD}[[classes.rules]]\nname = 'b'", "classes.rules[1]", "lacks the key job_class"),
    (f"{RULE_HEAD}{RULE_HEAD}", "classes.rules", "each needs a name of its own"),
    (f"{RULE_HEAD}notice_signal = 'KILL'", "classes.rules[0].notice_signal", "one of HUP, INT, USR1"),
    (f"{RULE_HEAD}notice_signal = ''", "classes.rules[0].notice_signal", "one of HUP, INT, USR1"),
    (f"{RULE_HEAD}grace_period_s = 86401", "classes.rules[0].grace_period_s", "between 0 and 86400 seconds, not 86401"),
    (f"{RULE_HEAD}max_gpus = 1", "classes.rules[0].max_gpus", "did you mean classes.rules[0].match.max_gpus?"),
    (f"{RULE_HEAD}match = 'debug'", "classes.rules[0].match", "must be a table with keys of partitions"),
    (f"{RULE_HEAD}match = {{ interactive = 'yes' }}", "classes.rules[0].match.interactive", "must be true or false"),
    *(
        (
            f"{RULE_HEAD}match = {{ min_{what} = 3, max_{what} = 2 }}",
            f"classes.rules[0].match.max_{what}",
            f"must be at least match.min_{what}, 3, not 2",
        )
        for what in ("time_limit_s", "nodes", "cpus", "gpus")
    ),
    (
        "[classes.user_word.within]\nmin_gpus = 2\nmax_gpus = 1",
        "classes.user_word.within.max_gpus",
        "must be at least within.min_gpus, 2, not 1",
    ),
    ("classes.rules = ['a']", "classes.rules[0]", "must be a table with keys of name, job_class"),
]

BOUND = "[guard.bound]\nslowdown = 3\nte_time_limit_s = 600\n"
BAD_BOUNDS = [
    ("[guard.bound]\nslowdown = 1", "guard.bound.slowdown", "must be a number above 1, such as 3, or 0"),
    ("[guard.bound]\nslowdown = nan", "guard.bound.slowdown", "must be a number above 1, such as 3, or 0"),
    ("[guard.bound]\nslowdown = 3", "guard.bound.te_time_limit_s", "must be set beside slowdown"),
    ("[guard.bound]\nte_time_limit_s = 600", "guard.bound.slowdown", "must be set beside te_time_limit_s"),
    ("[guard.bound]\nslowdown = 3\nte_time_limit_s = -1", "guard.bound.te_time_limit_s", "such as 1800, not -1"),
    (f"{BOUND}[classes]\ndefault_class = 'te'", "classes.default_class", "must not be te where guard.bound is set"),
    (f"{BOUND}{RULE_HEAD}", "classes.rules[0].match.max_time_limit_s", "te_time_limit_s, 600"),
    (
        f"{BOUND}[[classes.rules]]\nname = 'b'\njob_class = 'be'\n{RULE_HEAD}match = {{ max_time_limit_s = 601 }}",
        "classes.rules[1].match.max_time_limit_s",
        "must be set, to at most guard.bound.te_time_limit_s, 600, not 601",
    ),
    (
        f"{BOUND}[classes.user_word]\nmay_say_te = true",
        "classes.user_word.within.max_time_limit_s",
        "must be set, to at most guard.bound.te_time_limit_s, 600",
    ),
]

BAD_TE_LIMITS = [
    ("[guard.te]\nmax_outlived_per_user_day = -1", "guard.te.max_outlived_per_user_day", "at least 0, not -1"),
    ("[guard.te]\nmax_submitted_per_user = 2.5", "guard.te.max_submitted_per_user", "a whole number"),
    ("[guard.te]\nmax_running_per_user = -1", "guard.te.max_running_per_user", "at least 0, not -1"),
    (
        "[guard.te]\nmax_node_minutes_per_user = inf",
        "guard.te.max_node_minutes_per_user",
        "must be finite, and at least 0, not inf",
    ),
    ("[guard.te]\nmax_cluster_share = 0", "guard.te.max_cluster_share", "such as 0.25 for a quarter, not 0"),
    ("[guard.te]\nmax_cluster_share = 25", "guard.te.max_cluster_share", "at most 1, such as 0.25 for a quarter"),
]

BE = "[[policy.be]]\nname = "
BAD_ENTRIES = [
    ("[policy]\nbe = 'bogus'", "policy.be[0].name", 'must be one of "fill", '),
    ("[policy]\nbe = ['fill', 'bogus']", "policy.be[1].name", 'must be one of "fill", '),
    ("[policy]\nbe = 3", "policy.be", "must be a list of tables"),
    ("[policy]\nbe = [3]", "policy.be[0]", "must be a table with keys of name, partitions, qos"),
    ("[policy]\nbe = [{}]", "policy.be[0]", "lacks the key name"),
    (f"{BE}'fill'\npartition = ['gpu']", "policy.be[0].partition", "did you mean policy.be[0].partitions?"),
    (f"{BE}'fill'\npartitions = 'gpu'", "policy.be[0].partitions", "must be a list of texts"),
    ("[policy]\nbe = ['fill', 'fill']", "policy.be", "names fill twice"),
    ("[policy]\nbe = ['gavel', 'fill']", "policy.be", "fill would manage no job, since gavel before it manages all"),
    ("[policy]\nte = 'fill'", "policy.te", 'must be one of "fitgpp", '),
    ("[policy]\ngavel_round_s = 60.0", "policy.gavel_round_s", "is now policy.gavel.round_s"),
    (
        "[policy]\nround_min_run_time_s = 1",
        "policy.round_min_run_time_s",
        "is now policy.gavel.min_run_time_s",
    ),
]

LOAD = "policy.pdors.workloads"
LOAD_HEAD = f"[[{LOAD}]]\nname = 'a'\nsamples = 1e6\nsample_s = 0.1\nbatch = 64\n"
BAD_WORKLOADS = [
    (f"[[{LOAD}]]\nname = 'a'\nsamples = 1e6\nsample_s = 0.1", f"{LOAD}[0]", "lacks the key batch: a whole number"),
    (f"{LOAD_HEAD}{LOAD_HEAD}", LOAD, "each needs a name of its own"),
    (LOAD_HEAD.replace("'a'", "'a b'"), f"{LOAD}[0].name", "one word"),
    (LOAD_HEAD.replace("1e6", "0"), f"{LOAD}[0].samples", "must be above 0, not 0"),
    (LOAD_HEAD.replace("64", "0"), f"{LOAD}[0].batch", "must be a whole number of at least 1, not 0"),
    (f"{LOAD_HEAD}gradient_mb = -1", f"{LOAD}[0].gradient_mb", "must be a number of at least 0, not -1"),
    (f"{LOAD_HEAD}far_mb_per_s = 2000", f"{LOAD}[0].far_mb_per_s", "must not be above rack_mb_per_s, not 2000"),
    (f"{LOAD_HEAD}utility = 'high'", f"{LOAD}[0].utility", 'one of "insensitive", "sensitive", "critical"'),
    (f"{LOAD_HEAD}samples_s = 1", f"{LOAD}[0].samples_s", f"did you mean {LOAD}[0].sample_s?"),
]

#: texts that are no TOML, the place that is named, and what would be right
BROKEN = [
    ("mode = ", "line 1 (mode)", "texts stand in quotes"),
    ("mode = shadow", "line 1 (mode)", "texts stand in quotes"),
    ("mode = 'shadow", "line 1 (mode)", "the quotes that close it are missing"),
    ("mode 'shadow'", "line 1", "key = value"),
    ("= 'shadow'", "line 1", "key = value"),
    ("mode: shadow", "line 1", "key = value"),
    ("mode = 'a' policy = 'b'", "line 1 (mode)", "one key = value stands on a line"),
    ("mode = 'shadow'\nmode = 'shadow'", "line 2 (mode)", "a key stands once"),
    ("[guard]\ncool_down_s = 1\n[guard]\nretry_after_s = 1", "line 3", "put both parts of the table into one"),
    ("[guard\ncool_down_s = 1", "line 1", "`tesched config example`"),
    ("[guard]\ncool_down_s = 10 s", "line 2 (cool_down_s)", "one key = value stands on a line"),
    ("[guard]\ncool_down_s = 1h", "line 2 (cool_down_s)", "one key = value stands on a line"),
    ("[guard]\ncool_down_s = 007", "line 2 (cool_down_s)", "one key = value stands on a line"),
    ("[guard]\nprotected_users = ['a', ", "line 2 (protected_users)", "texts stand in quotes"),
    ("[guard]\nprotected_users = ['a' 'b']", "line 2 (protected_users)", "`tesched config example`"),
    ("[classes]\nuser_word = { may_say_te = True }", "line 2 (user_word)", "true, false and numbers without"),
    ('[slurm]\nconf = "C:\\slurm.conf"', "line 2 (conf)", r"write \\ for it"),
    ("<mode>shadow</mode>", "line 1", "key = value"),
    ("SlurmctldHost=here", "line 1 (SlurmctldHost)", "texts stand in quotes"),
    ("{}", "line 1", "key = value"),
    ("x = " + "[" * 5000, "nested too deeply", "not valid TOML"),
    ("[" + ".".join("a" * 1100) + "]", "nested too deeply", "not valid TOML"),
    (".".join("a" * 100) + " = 1", "nested too deeply", "not valid TOML"),
    ("x = " + "9" * 5000, "a number must have fewer digits", "not valid TOML"),
]


def refused(path: Path, *words: str, file: Path | None = None, argv: tuple[str, ...] = ("config", "check")) -> str:
    """Return the one line that is said of the configuration in `path`; each of the words must be in it."""
    given = [str(path)] if argv == ("config", "check") else ["--config", str(path)]
    answer = CliRunner(env={"NO_COLOR": "1"}).invoke(main, [*argv, *given])
    assert isinstance(answer.exception, SystemExit), answer.exception
    assert answer.exit_code == 2, answer.output
    assert answer.stdout == ""
    (line,) = answer.stderr.splitlines()
    assert line.startswith(f"Error: {file or path}: "), line
    for word in words:
        assert word in line, line
    return line


def check_all(path: Path, cases: Iterable[tuple[str, str, str]]) -> None:
    """Check that each file is refused, with its name, the key, and what would be right."""

    def check(case: tuple[str, str, str]) -> None:
        text, key, right = case
        path.write_text(text)
        line = refused(path, right)
        assert line.startswith(f"Error: {path}: {key}: "), line
        # Neither Python's words for types nor msgspec's.
        assert not re.search(r"\b(str|int|float|bool|null|array|object|NoneType|Expected|dataclass)\b", line), line

    collected.each(cases, check, lambda case: repr(case[0][:200]))


def test_a_value_of_a_wrong_type_is_an_error_that_names_file_and_key_and_what_would_be_right(tmp_path: Path) -> None:
    cases = list(wrong_types())
    # A key of several forms is in BAD_ENTRIES.
    assert {key.name for key in KEYS} - {"policy.be"} <= {named for _, named, _ in cases}
    check_all(tmp_path / "tesched.toml", cases)


def test_a_misspelt_key_is_an_error_that_names_file_and_key_and_the_right_one(tmp_path: Path) -> None:
    check_all(tmp_path / "tesched.toml", misspelt())


def test_a_number_out_of_range_is_an_error_that_names_file_and_key(tmp_path: Path) -> None:
    check_all(tmp_path / "tesched.toml", out_of_range())


def test_a_bad_value_is_an_error_that_names_file_and_key_and_what_would_be_right(tmp_path: Path) -> None:
    check_all(
        tmp_path / "tesched.toml",
        [*BOUNDS, *OTHERS, *BAD_RULES, *BAD_BOUNDS, *BAD_TE_LIMITS, *BAD_ENTRIES, *BAD_WORKLOADS],
    )


def test_a_file_that_is_no_toml_is_reported_with_the_line_and_the_key(tmp_path: Path) -> None:
    path = tmp_path / "tesched.toml"

    def check(case: tuple[str, str, str]) -> None:
        text, place, right = case
        path.write_text(text)
        refused(path, "not valid TOML: ", place, right)

    collected.each(BROKEN, check, lambda case: repr(case[0][:200]))


@pytest.mark.parametrize("text", ["[store]\nurl = 'mysql://me:geheim@db'", "[store]\nurl = 'postgresql://me:geheim@db"])
def test_a_password_in_a_bad_url_is_not_repeated(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tesched.toml"
    path.write_text(text)
    assert "geheim" not in refused(path, "url")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"mode = '\xff'", "byte 9 is no UTF-8; save the file as UTF-8"),
        ("mode = 'shadow'".encode("utf-16"), "byte 1 is no UTF-8"),
        (b"\x7fELF\x02\x01\x01\x00", "not valid TOML"),
        (b"mode = '\x00'", "not valid TOML: line 1 (mode)"),
    ],
)
def test_a_file_of_bytes_is_reported(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "tesched.toml"
    path.write_bytes(content)
    refused(path, said)


def test_a_missing_file_or_a_path_that_is_none_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "tesched.toml"
    refused(path, "no such file", "`tesched config example` prints one")
    refused(tmp_path, "must be a file, not a folder")
    path.symlink_to(tmp_path / "nowhere")
    refused(path, "a link to a file that does not exist")
    path.unlink()
    path.symlink_to(path)
    refused(path, "cannot be read: Too many levels of symbolic links")
    refused(Path("/proc/self/mem"), "cannot be read: Input/output error")
    other = tmp_path / "file"
    other.touch()
    refused(other / "tesched.toml", "cannot be read: Not a directory")


@pytest.mark.parametrize("locked", ["tesched.toml", "conf.d", "conf.d/a.toml"])
def test_a_file_that_may_not_be_read_is_reported(tmp_path: Path, locked: str) -> None:
    path = tmp_path / "tesched.toml"
    path.touch()
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "a.toml").touch()
    (tmp_path / locked).chmod(0)
    me = os.geteuid()
    try:
        if me == 0:
            # Nothing is closed to root. Another user must come as far as to the file.
            for folder in (tmp_path, *tmp_path.parents):
                if folder.stat().st_uid == me and not folder.stat().st_mode & 0o001:
                    folder.chmod(0o711)
            os.seteuid(65534)
        refused(path, "cannot be read: Permission denied; the daemon's user must be able to", file=tmp_path / locked)
    finally:
        os.seteuid(me)
        (tmp_path / locked).chmod(0o700)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("mood = 'shadow'", "mood: unknown key; did you mean mode?"),
        ("mode = shadow", "not valid TOML: line 1 (mode)"),
        ("[guard]\ncool_down_s = -1", "guard.cool_down_s: must be a number of at least 0, not -1"),
        ("guard = 1", "guard: must be a table"),
        ("[[classes.rules]]\nname = 'b'", "classes.rules[0]: lacks the key job_class"),
    ],
)
def test_a_bad_file_of_conf_d_is_reported_by_its_own_name(tmp_path: Path, content: str, said: str) -> None:
    path, bad = tmp_path / "tesched.toml", tmp_path / "conf.d" / "50-bad.toml"
    path.write_text(f"mode = 'shadow'\n[guard]\ncool_down_s = 1\n{RULE_HEAD}")
    bad.parent.mkdir()
    bad.write_text(content)
    refused(path, said, file=bad)


def test_a_conf_d_of_bad_kinds_is_reported(tmp_path: Path) -> None:
    path, folder = tmp_path / "tesched.toml", tmp_path / "conf.d"
    path.touch()
    folder.touch()
    refused(path, f"must be a folder, whose *.toml files are read after {path}", file=folder)
    folder.unlink()
    (folder / "a.toml").mkdir(parents=True)
    refused(path, "must be a file, not a folder", file=folder / "a.toml")
    (folder / "a.toml").rmdir()
    (folder / "a.toml").symlink_to("nowhere")
    refused(path, "a link to a file that does not exist", file=folder / "a.toml")


@pytest.mark.parametrize(
    "argv", [("config", "show"), ("daemon",), ("db", "upgrade"), ("status",), ("jobs",), ("explain", "1"), ("whatif",)]
)
def test_every_command_that_reads_it_refuses_it(tmp_path: Path, argv: tuple[str, ...]) -> None:
    path = tmp_path / "tesched.toml"
    path.write_text("mood = 1")
    refused(path, "mood: unknown key", argv=argv)
