"""Common to all tests: the repository's root is on the path, and the profile of Hypothesis (`tests/examples.py`)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest files first, and those that wait beside those that compute."""
    places = order.places(order.file_of(item.nodeid) for item in items)
    items.sort(key=lambda item: places[order.file_of(item.nodeid)])
