"""Common to all tests.

The repository's root is on the path; the profile of Hypothesis (`tests/examples.py`); `--json` by its schema.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tesched_cli import json_output

ROOT = str(Path(__file__).parent.parent)
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from tests import examples, order  # noqa: E402 - it is found by the line above


def pytest_configure() -> None:
    """Use the profile that HYPOTHESIS_PROFILE names, before any module of tests is imported."""
    try:
        examples.load()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


@pytest.fixture(scope="session", autouse=True)
def json_by_its_schema() -> Iterator[None]:
    """Check each document that a command prints in this process."""

    def checked(content: Mapping[str, Any]) -> None:
        from tesched_testcluster.harness import json_check  # noqa: PLC0415 - for the tests that print JSON

        json_check.check(json.loads(json.dumps(content)))
        write(content)

    write = json_output.write
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_output, "write", checked)
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest files first, and those that wait beside those that compute."""
    places = order.places(order.file_of(item.nodeid) for item in items)
    items.sort(key=lambda item: places[order.file_of(item.nodeid)])
