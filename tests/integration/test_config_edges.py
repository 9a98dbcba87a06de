"""Numbers on the edge: each that the configuration takes is worked with, and each other is refused with its key."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner
from tesched_cli.main import main
from tesched_core.intake.class_rules import NoticeRule
from tesched_core.model.cluster import Job, PluginSettings, SlurmSettings
from tesched_core.model.ranges import LONGEST_S, MOST
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_daemon.config import load, parse
from tesched_daemon.config_errors import ConfigError
from tesched_daemon.marks_file import MarkingActuator, MarksFile
from tesched_daemon.plugin_fit import user_name
from tesched_daemon.wiring import opened_loop
from tesched_policies.pdors.workload import TrainingKind
from tesched_slurm import clients
from tesched_slurm.client_choice import ClientChoice
from tesched_slurm.run_command import Commands
from tesched_testcluster.harness.empty_store import store_bytes

from tests import collected
from tests.loop_parts import FULL_CLUSTER, TRIAL, VICTIM, Cluster
from tests.unit.daemon.test_config_bad import KEYS, Key, keys_of

#: numbers that arithmetic or a store may stumble over
EDGES = (
    "1e308",
    "1e-308",
    "1e200",
    "-0.0",
    "nan",
    "inf",
    str(2**63),
    "1" + "0" * 400,
    *map(str, (LONGEST_S, MOST, 10**12)),
)
#: those that a key may take as its greatest, the least first
GREAT = (str(MOST), str(LONGEST_S), str(10**12), str(2**63), "1e200", "1e308")
#: keys in lists of tables
LISTED = tuple(keys_of(NoticeRule, "classes.notice_rules[0].")) + tuple(
    keys_of(TrainingKind, "policy.pdors.workloads[0].")
)
NUMBERS = tuple(key for key in (*KEYS, *LISTED) if key.kind in {int, float})
#: what a test sets, by table and key
Keys = Mapping[str, Mapping[str, str]]
#: tables whose keys a daemon works with together: those of the notices, those of the rules, and each other alone
NOTICES = ("classes.notice_rules[0]", "classes.rules[0]", "classes.user_word", "classes")
MATCHES = ("classes.notice_rules[0].match", "classes.rules[0].match", "classes.user_word.within")
MATCH = {"names": "['te']", "max_time_limit_s": "60"}
#: what stands in a table besides
BESIDE = {
    "guard.bound": {"slowdown": "3", "te_time_limit_s": "60"},
    "policy.pdors.workloads[0]": {"name": "'a'", "samples": "1000", "sample_s": "0.1", "batch": "10"},
    "classes.notice_rules[0]": {"name": "'n'"},
    "classes.rules[0]": {"name": "'te'", "job_class": "'te'"},
    "classes.rules[0].match": MATCH,
    "classes.user_word": {"may_say_te": "true"},
}


def table_of(key: Key) -> str:
    """Return the table that the key stands in."""
    return key.name.rpartition(".")[0]


TABLES = tuple(dict.fromkeys(map(table_of, NUMBERS)))
GROUPS = (NOTICES, MATCHES, *((table,) for table in TABLES if table not in {*NOTICES, *MATCHES}))


def text_of(folder: Path, keys: Keys, lever: str = "requeue") -> str:
    """Return a configuration with these keys."""
    policy = (re.findall(r"^policy\.(\w+)", " ".join(keys)) or ["fitgpp"])[0]
    tables: dict[str, dict[str, str]] = {
        "store": {"url": f"'sqlite:///{folder}/store'"},
        "slurm": {"marks": f"'{folder}/marks'", "admission": f"'{folder}/admission'"},
        "loop": {"socket": "''"},
        "policy": {"te": f"'{policy}'"} if policy in {"fitgpp", "patient", "rand"} else {"be": f"'{policy}'"},
        "guard": {"lever": f"'{lever}'", "min_run_time_s": "1"},
        "classes.rules[0]": BESIDE["classes.rules[0]"],
        "classes.rules[0].match": MATCH,
    }
    if any(table.startswith("classes.notice_rules") for table in keys):
        tables["classes.notice_rules[0]"] = BESIDE["classes.notice_rules[0]"]
    for table, some in keys.items():
        tables[table] = {**tables.get(table, {}), **BESIDE.get(table, {}), **some}
    return "mode = 'enforce'\n" + "".join(
        f"{_head(name)}\n" + "".join(f"{key} = {value}\n" for key, value in some.items())
        for name, some in tables.items()
    )


def _head(table: str) -> str:
    return f"[[{table.removesuffix('[0]')}]]" if table.endswith("[0]") else f"[{table.replace('[0]', '')}]"


@cache
def refusal(table: str, key: str, value: str) -> str:
    """Return why a configuration with this value is refused; empty if it is not."""
    try:
        parse(text_of(Path("/x"), {table: {key: value}}), "x.toml")
    except ConfigError as error:
        return str(error)
    return ""


def jobs_at(now: float) -> list[Job]:
    """Return a job that runs, a TE job, and best-effort jobs that wait: of an array, of the workload a, of none."""
    trial = replace(TRIAL, submit_time=now - 5, eligible_time=now - 5, time_limit_s=30, user="bob")
    waiting = replace(TRIAL, name="be", submit_time=now - 50, time_limit_s=600, user="eve")
    return [
        replace(VICTIM, start_time=now - 1000, submit_time=now - 2000, user="ada"),
        trial,
        replace(waiting, job_id=JobId(3), comment="workload=a samples=10"),
        replace(waiting, job_id=JobId(4), array_job_id=JobId(4), array_throttle=2),
        replace(waiting, job_id=JobId(5), time_limit_s=None),
    ]


def work(path: Path, store: bytes) -> None:
    """Let a daemon poll three times on an empty store, and ask what it did."""
    config = load(path)
    Path(f"{path.parent}/store").write_bytes(store)
    cluster, file = Cluster(), MarksFile(path=Path(config.slurm.marks))
    commands = Commands(timeout_s=1.0, slurm_conf="")
    client = replace(
        clients.choose(ClientChoice.COMMANDS, commands),
        observer=cluster,
        actuator=MarkingActuator(actuator=cluster, file=file),
    )
    with opened_loop(config, client, takes_over=True) as loop:
        loop.watcher = loop.knowledge.declarations = None
        for _ in range(3):
            now = time.time()
            plugin = PluginSettings(marks=str(file.path), owners=frozenset({user_name()}))
            cluster.seen = Snapshot.of(
                now,
                jobs=jobs_at(now),
                nodes=[*FULL_CLUSTER.nodes.values()],
                partitions=[*FULL_CLUSTER.partitions.values()],
                settings=SlurmSettings(plugin=plugin),
            )
            turn = loop.turn()
            assert not turn.trouble, turn.trouble
            assert 0 <= turn.next_in_s <= 3600
        loop.undo()
    for argv in (("status",), ("explain", "2"), ("config", "show", "--json")):
        said = CliRunner(env={"NO_COLOR": "1"}).invoke(main, [*argv, "--config", str(path)])
        assert said.exception is None or isinstance(said.exception, SystemExit), f"{argv}: {said.exception!r}"
        assert not re.search(r"\b(?:nan|inf|NaN|Infinity)\b", said.output), (argv, said.output)


def test_a_number_that_is_refused_is_named_with_what_would_be_right() -> None:
    def check(case: tuple[Key, str]) -> None:
        key, value = case
        said = refusal(table_of(key), key.bare, value)
        # Of two that do not go together either may be named; the other one is in the sentence.
        assert said == "" or re.match(r"x\.toml: [\w.\[\]]+: .*\bmust ", said), said
        assert said == "" or key.bare in said, said
        assert said or value not in {"nan", "inf", "1" + "0" * 400, "1e308"}
        assert said or key.kind is float or value not in {"-0.0", "1e-308", str(2**63)}

    collected.each(
        ((key, value) for key in NUMBERS for value in EDGES), check, lambda case: (case[0].name, case[1][:25])
    )


def cases(lever: str) -> Iterator[Keys]:
    """Yield what daemons work with: of some tables each key's least number that is taken, nothing, and the greatest."""
    of_lever = [group for group in GROUPS if lever == "requeue" or group[0].startswith("guard")]
    for group, values in product(of_lever, (("1e-308",), ("-0.0",), GREAT)):
        keys: dict[str, dict[str, str]] = {}
        for table, bare in ((table, key.bare) for table in group for key in NUMBERS if table_of(key) == table):
            if taken := [value for value in values if not refusal(table, bare, value)]:
                keys.setdefault(table, {})[bare] = taken[-1]
        if keys:
            yield keys


@pytest.mark.parametrize("lever", ["requeue", "plugin"])
def test_a_daemon_works_with_the_least_and_the_greatest_numbers_that_are_taken(tmp_path: Path, lever: str) -> None:
    path = tmp_path / "tesched.toml"

    def check(keys: Keys) -> None:
        path.write_text(text_of(tmp_path, keys, lever))
        work(path, store_bytes())

    collected.each(cases(lever), check)
