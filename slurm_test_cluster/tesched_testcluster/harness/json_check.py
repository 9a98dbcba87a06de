"""Check of what `tesched … --json` prints against the schema of its command, closed: no key that it does not name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from tesched_cli.json_output import KINDS
from tesched_cli.json_schemas import output_schema, with_json
from tesched_cli.main import main


@cache
def _validator(command: str) -> Draft202012Validator:
    if command not in KINDS:
        with_json(main)  # in a process of its own it was printed, and its module is not imported here
    return Draft202012Validator(output_schema(KINDS[command], closed=True))


def check(content: Mapping[str, Any]) -> None:
    """Raise AssertionError for content that its command's schema does not have, with each place."""
    command = content["meta"]["command"]
    found = [f"{error.json_path}: {error.message}" for error in _validator(command).iter_errors(content)]
    assert not found, f"tesched {command} --json is not by its schema: {found[:5]}"
