"""The configuration's schema: it refuses what the loader refuses of single values, and nothing that is taken."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from tesched_cli.config import example_text
from tesched_cli.init import starter
from tesched_cli.main import main
from tesched_daemon.config import Config, leaves, parse
from tesched_daemon.config_errors import ConfigError

from tests import collected
from tests.unit.daemon import test_config_bad as bad

#: what the loader checks of a single value, and a schema does not: what a URL, a path or a NAME=WEIGHT consists of
BEYOND = {
    "store.url",
    "slurm.marks",
    "slurm.admission",
    "loop.socket",
    "reports.socket",
    "metrics.listen",
    "tell.command",
    "policy.gavel.prices",
    "policy.gavel.qos_weights",
    "policy.gavel.entity_weights",
}
#: what the loader says of a value that another key forbids
BESIDE_ANOTHER = re.compile(
    r"must be set, to at most|must be set beside|must be 0 where no policy|must not be te where|"
    r"must not be above rack_mb|be at least (match|within)\.|between poll_interval_s and|each needs a name of its own|"
    r'names \w+ twice|would manage no|must not be "plugin" with'
)
#: a number in TOML that JSON has among its integers
INTEGRAL = re.compile(r"must be a whole number, not \d+\.0$")
VALUES = (
    *("-1", "0", "1", "2", "3", "0.05", "0.5", "1.5", "301", "3601.5", "86400", "86401", "1000000001", "1e13", "1e300"),
    *('""', '"x"', '"/x"', '"none"', '"B:USR1"', '"KILL"', '"las"', '"te"', '"fitgpp"', '"gavel"'),
    *("true", "[]", '["x"]', '["fill"]', "[1]", "{}", "{ name = 'x' }", "1979-05-27"),
)


@pytest.fixture(scope="module")
def judge(schema: dict[str, Any]) -> Draft202012Validator:
    return Draft202012Validator(schema)


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    printed = CliRunner().invoke(main, ["config", "schema"])
    assert printed.exit_code == 0, printed.output
    found: dict[str, Any] = json.loads(printed.stdout)
    Draft202012Validator.check_schema(found)
    return found


def complaints(judge: Draft202012Validator, text: str) -> list[str]:
    return [error.message for error in judge.iter_errors(tomllib.loads(text))]


def refusal(text: str) -> str:
    """Return what the loader says against a file; empty if it takes it."""
    try:
        parse(text, "x.toml")
    except ConfigError as error:
        return str(error)
    return ""


def uncommented_rules() -> Iterator[str]:
    """Yield the examples of rules that stand in the example configuration as a comment."""
    lines = [line.removeprefix("#").removeprefix(" ") for line in example_text().splitlines() if line.startswith("#")]
    start = lines.index("[[classes.rules]]")
    yield "\n".join(lines[start:])


def test_examples_are_valid(judge: Draft202012Validator) -> None:
    texts = [example_text(), starter(Path("/home/me/x"), "/etc/slurm/slurm.conf"), *uncommented_rules(), ""]
    texts += [f"[policy]\nbe = {value}" for value in ("'gavel'", "'none'", "['fill']", "[{ name = 'fill' }]")]
    for text in texts:
        assert not refusal(text)
        assert not complaints(judge, text), text


def test_every_key_is_described_and_has_its_default(schema: dict[str, Any]) -> None:
    tables = {name: part for name, part in schema["$defs"].items() if part.get("type") == "object"}
    for name, part in tables.items():
        assert part["description"], name
        assert part["additionalProperties"] is False, name
        for key, value in part["properties"].items():
            assert value.get("description") or value.get("$ref", "").rpartition("/")[2] in tables, f"{name}: {key}"
    for key, default in leaves(Config()):
        part = tables["Config"]
        *above, last = key.split(".")
        for word in above:
            part = tables[part["properties"][word]["$ref"].rpartition("/")[2]]
        if default is not None:
            shown = list(default) if isinstance(default, tuple) else default
            assert part["properties"][last]["default"] == shown, key


def test_comments_of_the_example_are_the_descriptions(schema: dict[str, Any]) -> None:
    limits = schema["$defs"]["Limits"]["properties"]
    said = (
        "Most node-hours of runs that may be lost in any 24 hours: of a job that declared a signal what it runs after "
        "its notice, unless it dies of that; of any other all of its run."
    )
    assert limits["max_lost_node_hours_per_day"]["description"] == said
    # Of keys that are in no example: the source's.
    assert schema["$defs"]["Match"]["properties"]["interactive"]["description"].startswith("True: salloc and srun")


def test_a_wrong_type_an_unknown_key_and_a_number_out_of_range_are_refused(judge: Draft202012Validator) -> None:
    def check(case: tuple[str, str, str]) -> None:
        # JSON has no nan, and a schema's comparisons do not see it.
        if not case[0].strip().endswith("= nan"):
            assert complaints(judge, case[0])

    cases = [*bad.wrong_types(), *bad.misspelt(), *bad.out_of_range()]
    assert len(cases) > 1000
    collected.each(cases, check, lambda case: repr(case[0]))


def test_other_bad_values_are_refused_but_for_what_is_listed(judge: Draft202012Validator) -> None:
    def check(case: tuple[str, str, str]) -> None:
        text, key, right = case
        if key not in BEYOND and not BESIDE_ANOTHER.search(refusal(text)) and not text.endswith("= nan"):
            assert complaints(judge, text), right

    lists = (
        bad.BOUNDS,
        bad.OTHERS,
        bad.BAD_RULES,
        bad.BAD_BOUNDS,
        bad.BAD_TE_LIMITS,
        bad.BAD_ENTRIES,
        bad.BAD_WORKLOADS,
    )
    collected.each([case for some in lists for case in some], check, lambda case: repr(case[0]))


def test_schema_and_loader_judge_each_value_of_each_key_alike(judge: Draft202012Validator) -> None:
    taken = 0
    for key in bad.KEYS:
        for value in VALUES:
            text = key.with_value(value)
            why, said = refusal(text), complaints(judge, text)
            assert why or not said, f"the schema alone refuses {text}: {said}"
            if why and not said:
                known = key.name in BEYOND or BESIDE_ANOTHER.search(why) or INTEGRAL.search(why)
                assert known, f"the loader alone refuses {text}: {why}"
            taken += not why
    assert taken > 500
