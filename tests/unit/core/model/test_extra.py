"""Optional packages: whether they can be used, found by importing them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tesched_core.model.extra import Extra

INNER = Extra(package="Slimpack", module="slimpack.inner", install=".[slim]")


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, "Slimpack, which is not installed; pip install '.[slim]'"),
        ({"__init__.py": "", "inner.py": ""}, ""),
        (
            {"__init__.py": ""},
            "Slimpack, which cannot be imported: No module named 'slimpack.inner'; pip install '.[slim]'",
        ),
        (
            {"__init__.py": "", "inner.py": "import nosuchpackage"},
            "Slimpack, which cannot be imported: No module named 'nosuchpackage'; pip install '.[slim]'",
        ),
        (
            {"__init__.py": "raise ValueError('numpy.dtype size changed')"},
            "Slimpack, which cannot be imported: ValueError: numpy.dtype size changed; pip install '.[slim]'",
        ),
    ],
    ids=["missing", "there", "a part missing", "without what it needs", "of another build"],
)
def test_a_package_that_cannot_be_used_is_named_with_why_and_what_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], why: str
) -> None:
    for name, text in files.items():
        path = tmp_path / "slimpack" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("slimpack", "slimpack.inner"):
        # Put back as it was, which is: not imported.
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.delitem(sys.modules, name)
    assert INNER.lacking() == why
