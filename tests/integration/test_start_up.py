"""Start-up of the command line: what is not needed is not imported. Modules are counted, not seconds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner
from sqlalchemy import insert
from tesched_cli.main import COMMANDS, GROUPS, main
from tesched_cli.render.remembered import StateTypes
from tesched_core.model.cluster import JobState
from tesched_db import migrate
from tesched_db.engine import open_store, writing
from tesched_db.tables import PolicyStateRow
from tesched_policies.pdors.state import PdorsState
from tesched_policies.registry import STATES
from tesched_testcluster.harness.store_examples import Writer, job, notice, order, remembering, victim

HEAVY = frozenset({"alembic", "apscheduler", "matplotlib", "msgspec", "numpy", "rich", "scipy", "sqlalchemy"})
PROGRAM = """
import sys
from contextlib import suppress
from tesched_cli.main import main
with suppress(SystemExit):
    main(sys.argv[1:])
print("\\n", *sorted(sys.modules))
"""


def imported(*argv: str, **variables: str) -> set[str]:
    """Return the packages that are imported by the end of this command."""
    return {name.partition(".")[0] for name in modules(*argv, **variables)}


def modules(*argv: str, **variables: str) -> set[str]:
    """Return the modules that are imported by the end of this command."""
    environment = {**os.environ, **variables}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *argv], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("argv", [("--version",), ("--help",), ("nosuchcommand",)])
def test_what_runs_no_command_imports_none(argv: tuple[str, ...]) -> None:
    assert imported(*argv) & HEAVY == set()


def test_completion_imports_no_command() -> None:
    words = {"_TESCHED_COMPLETE": "bash_complete", "COMP_WORDS": "tesched st", "COMP_CWORD": "1"}
    program = PROGRAM.replace("main(sys.argv[1:])", "main(prog_name='tesched')")
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **words}, capture_output=True, text=True, check=True
    )
    assert "plain,status" in done.stdout.splitlines()
    assert {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()} & HEAVY == set()


def _store(folder: Path) -> Path:
    """Make a store with an order under way; return the configuration that names it."""
    config, url = folder / "tesched.toml", f"sqlite:///{folder}/store.sqlite"
    config.write_text(f'[store]\nurl = "{url}"\n')
    migrate.upgrade(url)
    engine = open_store(url)
    seen = [job(1, JobState.RUNNING, nodes=["n1", "n2"]), job(2), job(3, JobState.RUNNING, nodes=["n3"])]
    Writer(engine).look(1000.0, *seen, te=[2], memory=remembering(order(1, 2, victim(1))), actions=[notice(1, 2, 1)])
    engine.dispose()
    return config


def test_status_imports_neither_numpy_nor_migrations_nor_what_the_daemon_does(tmp_path: Path) -> None:
    found = imported("status", "--config", str(_store(tmp_path)))
    assert found & {"alembic", "apscheduler", "matplotlib", "numpy", "scipy"} == set()
    assert "sqlalchemy" in found


@pytest.mark.parametrize(
    "argv",
    [("status",), ("status", "--json"), ("jobs",), ("jobs", "--mine"), ("orders",), ("explain", "2")],
    ids=" ".join,
)
def test_a_command_that_shows_the_store_searches_for_no_policy_and_imports_none(
    tmp_path: Path, argv: tuple[str, ...]
) -> None:
    config = _store(tmp_path)
    config.write_text(config.read_text() + '[policy]\nte = "patient"\n[guard]\nretry_after_s = 200\n')
    found = modules(*argv, "--config", str(config))
    assert "tesched_db.queries" in found
    assert [name for name in found if name.startswith("tesched_policies")] == []
    # The files of a configuration as a whole, what policies are written against, and the simplex and its like.
    assert not found & {"tesched_daemon.config", "tesched_core.policy", "tesched_core.step", "scipy"}


@pytest.mark.parametrize(
    "argv", [("status",), ("status", "--json"), ("jobs",), ("jobs", "--mine"), ("orders",)], ids=" ".join
)
def test_a_command_that_shows_the_store_imports_neither_an_orm_nor_what_decides_and_writes(
    tmp_path: Path, argv: tuple[str, ...]
) -> None:
    found = modules(*argv, "--config", str(_store(tmp_path)))
    assert "tesched_db.declared" in found
    assert [name for name in found if name.startswith("sqlalchemy.orm")] == []
    deciding = ("tesched_core.ports", "tesched_core.model.memory", "tesched_core.model.columns")
    classifying = ("tesched_core.intake.classify", "tesched_core.intake.class_rules")
    writing = ("tesched_db.journal", "tesched_db.job_rows", "tesched_db.memory_rows", "tesched_db.finished_runs")
    assert found & {*deciding, *classifying, *writing} == set()


def test_nothing_of_the_store_imports_an_orm() -> None:
    program = (
        "import pkgutil, sys, tesched_db\n"
        "names = [one.name for one in pkgutil.iter_modules(tesched_db.__path__) if not one.ispkg]\n"
        # Alembic, which makes and brings up to date the store, imports it.
        "names.remove('migrate')\n"
        "for name in names: __import__(f'tesched_db.{name}')\n"
        "print(len(names), 'sqlalchemy.orm' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    count, has_orm = done.stdout.split()
    assert (int(count) > 30, has_orm) == (True, "False")


def test_status_imports_what_json_and_trainings_need_only_where_there_is_some(tmp_path: Path) -> None:
    config = str(_store(tmp_path))
    needed = {"tesched_cli.json_output", "tesched_cli.status_json", "tesched_cli.training_json"}
    trained = {"tesched_core.intake.array_training", "tesched_core.model.job_report"}
    assert modules("status", "--config", config) & {*needed, *trained} == set()
    assert modules("status", "--json", "--config", config) >= needed


def test_one_node_of_an_order_needs_no_host_list(tmp_path: Path) -> None:
    assert "ClusterShell" not in imported("status", "--config", str(_store(tmp_path)))


def test_a_configuration_imports_no_policys_work_and_no_client(tmp_path: Path) -> None:
    modules = "'\\n'.join(name for name in sys.modules if name.startswith('tesched_'))"
    program = f"import sys, tesched_daemon.config; print({modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    found = set(done.stdout.split())
    assert "tesched_policies.gavel.policy" in found
    packages = ("tesched_core.placement", "tesched_core.guard", "tesched_core.levers", "tesched_core.orders")
    assert [name for name in found if name.startswith(packages)] == []
    assert not found & {
        "tesched_core.step",
        "tesched_daemon.loop",
        "tesched_daemon.job_reports.socket",
        "tesched_policies.gavel.turn",
        "tesched_policies.pdors.turn",
        "tesched_policies.slaq.jobs",
        "tesched_policies.victim_search",
        "tesched_slurm.clients",
    }


def test_help_has_each_command_in_one_group_and_whole_on_one_line_of_80_columns() -> None:
    lines = CliRunner(env={"COLUMNS": "80"}).invoke(main, ["--help"]).output.splitlines()
    assert max(map(len, lines)) <= 80
    assert [title for title in GROUPS if f"{title}:" not in lines] == []
    for name, lazy in COMMANDS.items():
        assert [line for line in lines if line.split(maxsplit=1) == [name, lazy.short_help]] != [], name
    assert sum(map(len, GROUPS.values())) == len(COMMANDS)


@pytest.mark.parametrize("name", ["config", "db", "throughputs"])
def test_help_of_a_group_cuts_no_line(name: str) -> None:
    lines = CliRunner(env={"COLUMNS": "80"}).invoke(main, [name, "--help"]).output.splitlines()
    commands = lines[lines.index("Commands:") + 1 :]
    assert [line for line in commands if len(line) > 80 or not line.endswith(".") or line.endswith("...")] == []


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_commands_help_in_the_list_is_its_own(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert COMMANDS[name].short_help == command.get_short_help_str(limit=1000)
    assert command.name == name


def test_explain_imports_policies_where_one_remembers_a_state(tmp_path: Path) -> None:
    config = _store(tmp_path)
    engine = open_store(f"sqlite:///{tmp_path}/store.sqlite")
    with writing(engine).begin() as connection:
        connection.execute(insert(PolicyStateRow).values(policy="pdors", state=msgspec.to_builtins(PdorsState())))
    engine.dispose()
    assert "tesched_policies.pdors.policy" in modules("explain", "2", "--config", str(config))
    answer = CliRunner().invoke(main, ["explain", "2", "--config", str(config)])
    assert (answer.exit_code, "cannot say" in answer.output) == (0, False)


def test_types_of_states_are_those_of_the_installed_policies() -> None:
    types = StateTypes()
    assert (dict(types), len(types), types.get("none")) == (dict(STATES), len(STATES), None)
    assert types["pdors"] is PdorsState
