"""Packages as if they were not installed."""

from __future__ import annotations

import sys

import pytest


def hide(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """Let an import of these packages fail as it does where they are not installed."""
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        monkeypatch.delitem(sys.modules, name)
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)
