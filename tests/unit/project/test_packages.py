"""The house: the packages that pyproject.toml lists are the folders that are there, and none is a stub."""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = sorted(path.parent for path in ROOT.glob("*/tesched_*/__init__.py"))


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_wheel_holds_every_package_but_the_test_cluster_and_the_papers_models(project: dict[str, Any]) -> None:
    packages = set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    there = {str(package.relative_to(ROOT)) for package in PACKAGES}
    assert packages == there - {"slurm_test_cluster/tesched_testcluster", "papers/tesched_papers"}


def test_what_builds_tesched_is_of_one_version_and_locked(project: dict[str, Any]) -> None:
    """Otherwise it would be downloaded, as new as it is that day."""
    (hatchling,) = project["build-system"]["requires"]
    assert hatchling in project["dependency-groups"]["dev"]
    assert f"\n{hatchling} \\\n" in (ROOT / "requirements.lock").read_text()


def test_every_tool_sees_the_same_packages(project: dict[str, Any]) -> None:
    outer = {package.parent.name for package in PACKAGES}
    tools = project["tool"]
    assert set(tools["hatch"]["build"]["dev-mode-dirs"]) == outer
    assert set(tools["mypy"]["mypy_path"]) == outer | {"docs/examples"}
    assert set(tools["mypy"]["files"]) == outer | {"tests", "benchmarks", "docs/examples"}
    linted = {package.name for package in PACKAGES} - {"tesched_testcluster"}
    assert set(tools["importlinter"]["root_packages"]) == linted
    (circles,) = (one for one in tools["importlinter"]["contracts"] if one["type"] == "acyclic_siblings")
    assert set(circles["ancestors"]) == linted


def test_no_outer_folder_is_a_package() -> None:
    assert not [str(path) for path in ROOT.glob("*/__init__.py")]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_no_package_is_a_stub(package: Path) -> None:
    defined = [
        node
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    ]
    assert defined
    assert (package / "py.typed").exists()


def test_core_has_few_packages() -> None:
    core = ROOT / "core" / "tesched_core"
    entries = {path.name for path in core.iterdir()} - {"__init__.py", "__pycache__", "py.typed"}
    assert len(entries) <= 10, sorted(entries)


def test_no_module_of_a_policy_is_named_in_core_or_in_the_store() -> None:
    policies = {path.name for path in (ROOT / "policies" / "tesched_policies").iterdir() if path.is_dir()} - {
        "__pycache__"
    }
    assert {"gavel", "slaq", "pdors"} <= policies
    packages = (ROOT / "core" / "tesched_core", ROOT / "db" / "tesched_db")
    imports = [
        (path, node.module)
        for package in packages
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tesched_policies")
    ]
    assert imports == []


def names_imported(path: Path) -> set[str]:
    """Return the outermost names that a file imports: `tests` of `from tests.builders import node`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            found |= {(node.module or "").partition(".")[0]}
        elif isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
    return found


@pytest.mark.parametrize(
    ("folder", "barred"),
    [
        ("tests", {"benchmarks"}),
        ("benchmarks", {"tests"}),
        ("slurm_test_cluster", {"tests", "benchmarks"}),
        ("docs/examples", {"tests", "benchmarks"}),
    ],
)
def test_neither_tests_nor_benchmarks_are_imported_from_outside(folder: str, barred: set[str]) -> None:
    """What both need is in `tesched_testcluster.harness`."""
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    found = {str(path.relative_to(ROOT)): names_imported(path) & barred for path in files}
    assert {path: names for path, names in found.items() if names} == {}


def test_a_class_name_stands_once_in_the_wheel(project: dict[str, Any]) -> None:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for package in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        for path in (ROOT / package).rglob("*.py"):
            classes = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef))
            for each in classes:
                found[each.name].add(str(path.relative_to(ROOT)))
    several = {name: where for name, where in found.items() if len(where) > 1}
    # A training imports the reporter alone, so core has a class of its own for what that writes.
    assert set(several) == {"Sample"}, several
