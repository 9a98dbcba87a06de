"""Extras: what is imported only on request, what brings it, and the lock files that a login node is installed from."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tesched_core.model.extra import Extra
from tesched_policies.registry import INSTALLED

ROOT = Path(__file__).parents[3]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
#: as they are imported
ON_REQUEST = {"matplotlib", "psycopg", "pyslurm", "scipy", "starlette", "submitit", "textual", "uvicorn"}
#: modules that are themselves imported only on request: Gavel's programs, the driver, the views, the client's process
ALLOWED = {
    *(f"policies/tesched_policies/gavel/allocators/{name}.py" for name in ("constraints", "cost", "lp")),
    *(f"policies/tesched_policies/gavel/allocators/{name}.py" for name in ("max_min", "merge_identical")),
    "db/tesched_db/answering.py",
    "cli/tesched_cli/top/app.py",
    *(f"cli/tesched_cli/web/{name}.py" for name in ("app", "serving")),
}
WHERE = {
    "gavel": ("tesched_policies.gavel.policy", ("SCIPY",)),
    "plots": ("tesched_sim.reports.plots", ("MATPLOTLIB",)),
    "postgresql": ("tesched_db.engine", ("DRIVER",)),
    "submitit": ("tesched_sim.sweep", ("SUBMITIT",)),
    "top": ("tesched_cli.top.command", ("TEXTUAL",)),
    "web": ("tesched_cli.web.command", ("STARLETTE", "UVICORN")),
}
LOCKS = {"service": [], **{name: [name] for name in ("gavel", "plots", "postgresql", "top", "web")}}


def at_once(tree: ast.AST) -> Iterator[str]:
    """Yield the outermost names that are imported with a module: not in its functions, nor for annotations alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]
        else:
            yield from at_once(node)


def test_imports_of_functions_and_annotations_are_not_at_once() -> None:
    text = (
        "import a.b\nif TYPE_CHECKING:\n    import c\nif x:\n    from d.e import f\n"
        "class C:\n    import g\n    def h(self):\n        import i\n"
    )
    assert [*at_once(ast.parse(text))] == ["a", "d", "g"]


def test_what_an_extra_brings_is_imported_at_once_where_that_is_allowed_alone() -> None:
    folders = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    found = {
        str(path.relative_to(ROOT))
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if ON_REQUEST & set(at_once(ast.parse(path.read_text())))
    }
    assert found == ALLOWED


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^\w-]", one, maxsplit=1)[0] for one in requirements}


def test_no_package_of_an_extra_is_a_dependency_or_left_out_above() -> None:
    brought = set().union(*map(names, EXTRAS.values()))
    assert brought == ON_REQUEST
    assert brought & names(PROJECT["project"]["dependencies"]) == set()


@pytest.mark.parametrize("name", sorted(WHERE))
def test_what_is_said_to_be_missing_is_brought_by_the_extra_that_is_named(name: str) -> None:
    module, attributes = WHERE[name]
    extras: list[Extra] = [getattr(import_module(module), attribute) for attribute in attributes]
    assert {extra.install for extra in extras} == {f".[{name}]"}
    assert names(EXTRAS[name]) == {extra.module.partition(".")[0] for extra in extras}


def test_the_page_on_installation_lists_each_extra_and_the_policies_that_need_it() -> None:
    page = (ROOT / "docs" / "howto" / "installation.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| .* \| .* \| .* \|$", page, re.MULTILINE)
    listed = {name: set(re.findall(r'`policy\.be = "(\w+)"`', text)) for name, text in rows}
    needed = {name: {one.install for one in policy.needs} for name, policy in INSTALLED.items()}
    assert listed == {extra: {name for name in needed if f".[{extra}]" in needed[name]} for extra in EXTRAS}


def test_pip_gets_a_checkout_since_no_index_has_tesched() -> None:
    texts = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "systemd" / "tesched.toml"]
    assert [path.name for path in texts if re.search(r"pip install '?tesched\b(?!-)", path.read_text())] == []


def locked(path: Path) -> dict[str, set[str]]:
    """Return the packages of a lock file, "numpy==2.4.6", each with its hashes."""
    found: dict[str, set[str]] = {}
    for block in re.split(r"\n(?=[^\s#])", path.read_text())[1:]:
        found[block.split()[0]] = set(re.findall(r"--hash=(\S+)", block))
    return found


@pytest.mark.parametrize("name", sorted(LOCKS))
def test_a_lock_file_of_a_login_node_has_what_its_installation_needs_as_it_was_tested(name: str) -> None:
    mine, tested = locked(ROOT / "locks" / f"{name}.lock"), locked(ROOT / "requirements.lock")
    assert {what for what, hashes in mine.items() if tested.get(what) != hashes} == set()
    assert all(mine.values())
    needed = [*PROJECT["project"]["dependencies"], *(one for extra in LOCKS[name] for one in EXTRAS[extra])]
    assert names(needed) <= {what.partition("==")[0] for what in mine}


def test_the_lock_file_without_extras_has_none_of_their_packages() -> None:
    assert {what.partition("==")[0] for what in locked(ROOT / "locks" / "service.lock")} & ON_REQUEST == set()
    assert {path.stem for path in (ROOT / "locks").iterdir()} == set(LOCKS)
