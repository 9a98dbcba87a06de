"""What systemd is given: the unit agrees with what the daemon does, and systemd's own tools find nothing wrong."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import signal
import subprocess
import tomllib
from pathlib import Path

import click
import pytest
from tesched_cli.main import main
from tesched_daemon import service as daemon
from tesched_daemon.config import SlurmConfig
from tesched_daemon.config_files import DEFAULT_PATH, DROP_INS
from tesched_daemon.settings import Pace
from tesched_daemon.store_config import StoreConfig

ROOT = Path(__file__).parents[3]
SYSTEMD = ROOT / "systemd"
UNIT = SYSTEMD / "tesched.service"
#: where docs/howto/installation.md puts the wheel's environment
PREFIX = "/opt/tesched"
UNITS = {".service", ".timer"}
#: `RestingObserver.observe`: whether jobs have changed, the configuration, jobs, nodes, partitions, reservations, and
#: the ids.
CALLS_OF_A_LOOK = 7


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the root of a system in which tesched is installed, as far as systemd's tools read."""
    for source, target in shared_data().items():
        if source.startswith("systemd/"):
            place = tmp_path / "etc" / target.removeprefix("lib/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, place)
    for program in (f"{PREFIX}/bin/tesched", "/bin/kill"):
        place = tmp_path / program.lstrip("/")
        place.parent.mkdir(parents=True)
        place.write_text("#!/bin/sh\n")
        place.chmod(0o755)
    return tmp_path


def shared_data() -> dict[str, str]:
    """Return which file of the source a wheel puts where below its environment."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    data: dict[str, str] = project["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    return data


def said(*words: str | Path) -> str:
    """Run one of systemd's tools and return all that it says; it must succeed."""
    if shutil.which(str(words[0])) is None:
        pytest.fail(f"{words[0]} is missing: run 'sudo slurm_test_cluster/install-slurm.sh'")
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def unit() -> configparser.ConfigParser:
    return read(UNIT.name)


def read(name: str) -> configparser.ConfigParser:
    # A key may stand twice (SystemCallFilter); the last one is kept.
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(SYSTEMD / name)
    return parser


def test_it_starts_the_daemon_on_the_default_configuration(unit: configparser.ConfigParser) -> None:
    words = shlex.split(unit["Service"]["ExecStart"])
    assert words == [f"{PREFIX}/bin/tesched", "daemon", "--config", str(DEFAULT_PATH)]
    # click itself has to understand them.
    command = main.get_command(click.Context(main), words[1])
    assert command is not None
    assert command.make_context("daemon", words[2:]).params["once"] is False
    assert unit["Unit"]["ConditionPathExists"] == str(DEFAULT_PATH)
    assert f"/etc/{unit['Service']['ConfigurationDirectory']}" == str(DEFAULT_PATH.parent)


def test_the_default_store_is_in_the_only_folder_that_may_be_written(unit: configparser.ConfigParser) -> None:
    service = unit["Service"]
    assert service["ProtectSystem"] == "strict"
    assert "ReadWritePaths" not in service
    store = Path(StoreConfig().url.removeprefix("sqlite:///"))
    assert str(store.parent) == f"/var/lib/{service['StateDirectory']}"


def test_slurmctlds_user_reaches_the_default_socket(unit: configparser.ConfigParser) -> None:
    service = unit["Service"]
    assert str(Path(Pace().socket).parent) == f"/run/{service['RuntimeDirectory']}"
    # Others may go through the folder; the daemon gives the socket itself its mode, whatever UMask says.
    assert int(service["RuntimeDirectoryMode"], 8) & 0o001


def test_the_plugins_marks_outlive_the_daemon_and_are_removed_with_it(unit: configparser.ConfigParser) -> None:
    service = unit["Service"]
    folder = f"/run/{service['RuntimeDirectory']}"
    assert str(Path(SlurmConfig().marks).parent) == folder
    # systemd.exec(5): else the folder goes at each end of the daemon, a crash among them
    assert service["RuntimeDirectoryPreserve"] == "yes"
    removed = [line for line in way_back() if line.startswith("rm -rf ")]
    assert folder in [word for line in removed for word in line.split()]


def test_the_watchdog_outlasts_a_slow_poll_and_two_connections_to_a_store_that_is_away(
    unit: configparser.ConfigParser,
) -> None:
    # A wait between two turns, however long, is none of them.
    assert float(unit["Service"]["WatchdogSec"]) > CALLS_OF_A_LOOK * SlurmConfig().timeout_s + 2 * 31


def test_a_start_has_time_for_a_slow_first_poll(unit: configparser.ConfigParser) -> None:
    # READY is sent after the first turn; before that the watchdog does not count.
    assert float(unit["Service"]["TimeoutStartSec"]) > 2 * CALLS_OF_A_LOOK * SlurmConfig().timeout_s


def test_a_stop_leaves_a_slow_poll_and_its_command_time_to_end(unit: configparser.ConfigParser) -> None:
    service = unit["Service"]
    assert float(service["TimeoutStopSec"]) > CALLS_OF_A_LOOK * SlurmConfig().timeout_s
    # The default, control-group, would send SIGTERM to the scontrol under way as well.
    assert service["KillMode"] == "mixed"


def test_a_reload_is_the_signal_that_has_the_configuration_read_again(unit: configparser.ConfigParser) -> None:
    # systemd 252, Debian 12's, knows no Type=notify-reload: it would run the daemon as Type=simple.
    assert unit["Service"]["Type"] == "notify"
    assert shlex.split(unit["Service"]["ExecReload"]) == ["/bin/kill", "-HUP", "$MAINPID"]
    running = daemon.Service(None, reload=lambda _: "")  # type: ignore[arg-type]
    with running.signals():
        signal.raise_signal(signal.SIGHUP)
        assert running._asked.get(timeout=10) is daemon._Ask.RELOAD


def test_a_refused_system_call_does_not_kill(unit: configparser.ConfigParser) -> None:
    # Importing NumPy may call mbind, which the filter refuses.
    assert unit["Service"]["SystemCallErrorNumber"] == "EPERM"


def test_memory_and_tasks_are_bounded_well_above_what_was_measured(unit: configparser.ConfigParser) -> None:
    service = unit["Service"]
    most, unit_of = re.fullmatch(r"(\d+)([GM])", service["MemoryMax"]).groups()  # type: ignore[union-attr]
    # 780 MiB for 100,000 jobs by pyslurm, the larger of the clients; scontrol's own text of them stands beside it.
    assert 2 * 2 * 780 <= int(most) * {"M": 1, "G": 1024}[unit_of] <= 8 * 1024
    # OpenBLAS of NumPy and of SciPy: 64 threads each.
    assert int(service["TasksMax"]) >= 4 * 64
    # A scontrol that grows too large is a failed poll, not the end of the daemon.
    assert service["OOMPolicy"] == "continue"
    assert service["LimitCORE"] == "0"


def test_the_kernels_word_on_the_poking_user_is_not_taken_away(unit: configparser.ConfigParser) -> None:
    assert "PrivateUsers" not in unit["Service"]


def test_prune_is_kept_as_close_as_the_daemon(unit: configparser.ConfigParser) -> None:
    other = read("tesched-prune.service")
    for key, value in unit["Service"].items():
        if key.startswith(("Protect", "Private", "Restrict", "Capability", "SystemCall", "Memory", "Tasks", "Limit")):
            assert other["Service"][key] == value, key


def test_prune_has_the_variables_of_the_daemon_and_the_page_names_their_files() -> None:
    files = re.compile(r"^EnvironmentFile=-(.*)$", re.MULTILINE)
    found = files.findall(UNIT.read_text())
    assert found == files.findall((SYSTEMD / "tesched-prune.service").read_text())
    page = (ROOT / "docs" / "howto" / "installation.md").read_text()
    way_back = page[page.index("## Away with it") :]
    assert [name for name in found if f" {name} " not in way_back or f"`{name}`" not in page] == []


def test_the_live_page_is_kept_as_close_as_the_daemon_and_may_write_its_socket_alone(
    unit: configparser.ConfigParser,
) -> None:
    web = read("tesched-web.service")["Service"]
    for key, value in unit["Service"].items():
        if key.startswith(("Protect", "Private", "Restrict", "Capability", "SystemCall", "Limit")):
            assert web[key] == value, key
    # A user of its own, which owns no file, in the group that may read the store and the configuration.
    assert (web["DynamicUser"], web["Group"], web.get("User")) == ("yes", unit["Service"]["Group"], None)
    assert not {"StateDirectory", "ReadWritePaths", "ConfigurationDirectory"} & set(web)
    words = shlex.split(web["ExecStart"])
    assert words[:4] == [f"{PREFIX}/bin/tesched", "web", "--config", str(DEFAULT_PATH)]
    command = main.get_command(click.Context(main), words[1])
    assert command is not None
    listen = Path(command.make_context("web", words[2:]).params["listen"])
    assert str(listen.parent) == f"/run/{web['RuntimeDirectory']}"
    assert web["RuntimeDirectoryMode"] == "0750"


def test_only_the_daemon_itself_speaks_to_systemd(unit: configparser.ConfigParser) -> None:
    service = unit["Service"]
    assert (service["Type"], service["NotifyAccess"], service["User"]) == ("notify", "main", "tesched")


def test_it_may_reach_munge_slurmctld_and_no_other_kind_of_address(unit: configparser.ConfigParser) -> None:
    service = unit["Service"]
    assert set(service["RestrictAddressFamilies"].split()) == {"AF_UNIX", "AF_INET", "AF_INET6"}
    assert service["CapabilityBoundingSet"] == ""
    assert {"munge.service", "slurmctld.service", "network-online.target"} <= set(unit["Unit"]["After"].split())


@pytest.mark.parametrize(
    "name", sorted(path.name for path in SYSTEMD.iterdir() if path.suffix in {".service", ".timer"})
)
def test_systemd_finds_nothing_wrong(root: Path, name: str) -> None:
    # Only this unit's own faults: the units that it names are not in the folder. Manual pages are tested elsewhere.
    words = ("systemd-analyze", "verify", f"--root={root}", "--recursive-errors=no", "--man=no", name)
    assert said(*words) == ""


def test_systemd_rates_its_exposure_as_low() -> None:
    rated = said("systemd-analyze", "security", "--offline=true", "--no-pager", UNIT)
    found = re.search(r"exposure level for tesched\.service: ([0-9.]+)", rated)
    assert found, rated
    assert float(found[1]) <= 2.5


def test_the_user_is_made_without_a_shell_and_without_a_password(root: Path, unit: configparser.ConfigParser) -> None:
    said("systemd-sysusers", f"--root={root}", "tesched.conf")
    name, password, _, _, _, home, shell = (root / "etc" / "passwd").read_text().strip().split(":")
    assert (name, password, shell) == (unit["Service"]["User"], "x", "/usr/sbin/nologin")
    assert (root / "etc" / "shadow").read_text().split(":")[1].startswith("!")
    assert home == f"/var/lib/{unit['Service']['StateDirectory']}"
    assert (root / "etc" / "group").read_text().startswith(f"{unit['Service']['Group']}:")


def test_the_folders_are_made_as_the_unit_makes_them(root: Path, unit: configparser.ConfigParser) -> None:
    said("systemd-sysusers", f"--root={root}", "tesched.conf")
    # No path is below this one: the lines are read, and nothing is made, which only root could.
    assert said("systemd-tmpfiles", "--create", f"--root={root}", "--prefix=/nowhere", "tesched.conf") == ""
    text = (SYSTEMD / "tesched.tmpfiles").read_text()
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    made = {path: (mode, user, group) for kind, path, mode, user, group, _ in lines if kind == "d"}
    service = unit["Service"]
    state, configuration = f"/var/lib/{service['StateDirectory']}", f"/etc/{service['ConfigurationDirectory']}"
    assert made[state] == (service["StateDirectoryMode"], service["User"], service["Group"])
    # The daemon cannot write its own configuration.
    assert made[configuration] == (service["ConfigurationDirectoryMode"], "root", service["Group"])
    assert made[f"{configuration}/{DROP_INS}"] == made[configuration]
    fixed = {path: (mode, user, group) for kind, path, mode, user, group, _ in lines if kind == "z"}
    # It may hold a password.
    assert fixed[str(DEFAULT_PATH)] == fixed[f"{configuration}/{DROP_INS}/*.toml"] == ("0640", "root", service["Group"])


def test_every_file_for_systemd_is_in_the_wheel() -> None:
    shared = shared_data()
    # The example configuration is in the package: `tesched config example` prints it.
    files = {f"systemd/{path.name}" for path in SYSTEMD.iterdir() if path.suffix != ".toml"}
    assert {source for source in shared if source.startswith("systemd/")} == files
    assert shared["systemd/tesched.service"] == "lib/systemd/system/tesched.service"


def test_the_installation_takes_from_the_environment_what_the_wheel_puts_there() -> None:
    pages = [ROOT / "docs" / "howto" / name for name in ("installation.md", "web.md")]
    text = "".join(page.read_text() for page in pages)
    named = set(re.findall(rf"{PREFIX}/((?:lib|share)/\S+)", text))
    assert named == set(shared_data().values())


def test_before_the_store_is_copied_all_that_may_write_to_it_is_stopped() -> None:
    page = (ROOT / "docs" / "howto" / "installation.md").read_text()
    stopped, _copied = re.findall(r"^systemctl stop (.+)\n(.*cp -a .*)$", page, re.MULTILINE)[0]
    # A timer that is stopped leaves what it has started.
    assert set(stopped.split()) == {"tesched", "tesched-prune.timer", "tesched-prune.service"}


def boxes(page: str) -> list[list[str]]:
    """Return the lines of each box of commands, fenced or indented, of a page of docs/howto."""
    text = (ROOT / "docs" / "howto" / page).read_text()
    fenced = [box.strip().splitlines() for box in text.split("```")[1::2]]
    indented = re.findall(r"(?:^    \S.*\n)+", text, re.MULTILINE)
    return fenced + [[line.strip() for line in box.splitlines()] for box in indented]


def way_back() -> list[str]:
    """Return the lines that remove tesched from a host."""
    (lines,) = [box for box in boxes("installation.md") if any(line.startswith("userdel ") for line in box)]
    return lines


def test_what_pip_installs_may_be_read_by_the_daemons_user() -> None:
    # Root's umask is 077 or 027 on a hardened host. pip goes by it, and the unit would end with status=203/EXEC.
    pip = f"{PREFIX}/bin/pip"
    found = [box for page in ("installation.md", "web.md") for box in boxes(page) if any(pip in line for line in box)]
    assert len(found) == 3
    for box in found:
        first = next(at for at, line in enumerate(box) if PREFIX in line and not line.startswith("umask"))
        assert "umask 022" in box[:first], box


def test_what_systemd_remembers_of_the_timer_is_removed() -> None:
    assert read("tesched-prune.timer")["Timer"]["Persistent"] == "true"
    words = [word for line in way_back() for word in line.split()]
    # systemd.timer(5): where Persistent= keeps the time of its last run
    assert "/var/lib/systemd/timers/stamp-tesched-prune.timer" in words


def test_a_new_version_reads_the_configuration_as_the_daemons_user_before_it_is_started() -> None:
    (update,) = [box for box in boxes("installation.md") if any("--force-reinstall" in line for line in box)]
    checked, started = (
        update.index(f"{line}") for line in ("runuser -u tesched -- tesched config check", "systemctl start tesched")
    )
    assert checked < started


SOURCED = ("old=$PATH; set -a", "set +a; PATH=$PATH:$old")


def test_what_is_typed_as_the_daemons_user_has_the_units_variables(tmp_path: Path) -> None:
    (tmp_path / "default").write_text("# a comment\nPATH=/opt/slurm/bin:/usr/bin\nSLURM_CONF=/opt/slurm.conf\n")
    found = [box for box in boxes("installation.md") if any(line.startswith("runuser -u tesched") for line in box)]
    assert len(found) == 3
    for box in found:
        first, last = (box.index(line) for line in SOURCED)
        assert last < next(at for at, line in enumerate(box) if line.startswith("runuser "))
        lines = "\n".join(box[first : last + 1])
        assert re.findall(r"/etc/\w+/tesched", lines) == re.findall(r"EnvironmentFile=-(.*)", UNIT.read_text())
        lines = lines.replace("/etc/default/tesched", f"{tmp_path}/default")
        lines = lines.replace("/etc/sysconfig/tesched", f"{tmp_path}/none")
        # The administrator's own PATH has runuser, userdel and tesched, which the file's need not have.
        shell = ["/bin/sh", "-ec", f"{lines}\nexec /usr/bin/env"]
        seen = subprocess.run(shell, env={"PATH": "/sbin:/local"}, capture_output=True, text=True, check=True).stdout
        assert {"PATH=/opt/slurm/bin:/usr/bin:/sbin:/local", "SLURM_CONF=/opt/slurm.conf"} <= set(seen.splitlines())


def test_nothing_is_removed_in_the_box_of_undo() -> None:
    # Its exit status says whether all is put back, which the store alone knows.
    (undo,) = [box for box in boxes("installation.md") if "runuser -u tesched -- tesched undo" in box]
    assert undo[-1] == "runuser -u tesched -- tesched undo"
    assert undo is not way_back()
    assert [line for line in undo if re.match(r"rm |userdel|sacctmgr", line)] == []


def test_what_other_pages_have_a_site_install_is_named_where_all_is_removed() -> None:
    text = (ROOT / "docs" / "howto" / "installation.md").read_text()
    away = text[text.index("## Away with it") : text.index("## What of this was tried")]
    pages = [*(ROOT / "docs" / "howto").glob("*.md"), ROOT / "docs" / "reference" / "idle.md"]
    every = "".join(page.read_text() for page in pages)
    named = set(re.findall(r"\(\.\./examples/(?:\w+/)*([\w.-]+)\)", every)) - {"grafana-dashboard.json"}
    named |= set(re.findall(r"export (TESCHED_\w+)=/?\w", every))
    named |= {f"setfacl -x {who} {path}" for who, path in re.findall(r"setfacl -m (u:\w+):x (/[\w/]+)", every)}
    assert {"idle_jobs.py", "TESCHED_SPOOL", "setfacl -x u:tesched /var/spool/slurmctld"} <= named
    assert sorted(one for one in named if one not in away) == []
    # A pattern would take a folder of a drop-in, too, which rm refuses.
    assert [line for line in way_back() if "*" in line] == []
