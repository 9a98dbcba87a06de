"""Schemas of `--json`: each command has one, the files in docs are up to date, and a closed one names every key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from tesched_cli import json_output
from tesched_cli.json_output import KINDS, document
from tesched_cli.json_schemas import file_name, output_schema, shown, with_json
from tesched_cli.main import main
from tesched_papers.__main__ import main as papers
from tesched_testcluster.harness import json_check

FOLDER = Path(__file__).parents[3] / "docs" / "reference" / "json"
COMMANDS = sorted(with_json(main))
META = {"command": "unpause", "version": 1, "at": 0.5}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_with_json_has_a_schema_and_its_file_is_up_to_date(command: str) -> None:
    assert command in KINDS, f"{command}: make the class of what its --json prints a document (cli/json_output.py)"
    made = output_schema(KINDS[command])
    Draft202012Validator.check_schema(made)
    remedy = "run: .venv/bin/python -m tesched_cli.json_schemas docs/reference/json"
    assert (FOLDER / file_name(command)).read_text() == shown(made), remedy


def test_docs_have_schemas_of_these_commands_alone() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(map(file_name, COMMANDS))
    of_papers = {f"tesched_papers {name}" for name in with_json(papers)}
    assert {*COMMANDS, *of_papers} == KINDS.keys()


def test_a_published_schema_is_open_and_a_closed_one_refuses_a_key_that_it_does_not_name() -> None:
    more = {"meta": META, "was_paused": True, "new": 1}
    assert Draft202012Validator(output_schema(KINDS["unpause"])).is_valid(more)
    with pytest.raises(AssertionError, match="'new' was unexpected"):
        json_check.check(more)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"meta": META}, "'was_paused' is a required property"),
        ({"meta": META, "was_paused": "yes"}, "'yes' is not of type 'boolean'"),
        ({"meta": {**META, "version": 2}, "was_paused": True}, "1 was expected"),
    ],
)
def test_what_is_not_by_its_schema_is_an_error_that_names_the_place(content: dict[str, object], said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        json_check.check(content)


def test_tests_check_what_commands_print() -> None:
    with pytest.raises(AssertionError, match="is not by its schema"):
        json_output.write({"meta": META})


def test_what_is_no_document_is_not_printed() -> None:
    with pytest.raises(KeyError):
        json_output.print_json({"jobs": []})


def test_all_documents_of_a_command_have_one_version() -> None:
    with pytest.raises(ValueError, match="jobs: its documents have versions 1 and 2"):
        document("jobs", version=2)(dict)


def test_the_command_schema_prints_one_or_lists_all() -> None:
    run = CliRunner()
    assert run.invoke(main, ["schema"]).stdout.splitlines() == [f"{name} {KINDS[name].version}" for name in COMMANDS]
    for words in (["config", "show"], ["jobs"]):
        printed = run.invoke(main, ["schema", *words])
        assert json.loads(printed.stdout) == output_schema(KINDS[" ".join(words)])
    refused = run.invoke(main, ["schema", "poke"])
    assert refused.exit_code == 2
    assert "poke: no command with --json; there are advise, ask, check," in refused.stderr
