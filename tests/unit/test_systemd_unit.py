"""The systemd unit: what it says agrees with what the daemon does."""

from __future__ import annotations

import configparser
import shlex
from pathlib import Path

import pytest
from tesched_cli.main import main
from tesched_daemon.config import DEFAULT_PATH, SlurmConfig, StoreConfig
from tesched_daemon.loop import Pace

UNIT = Path(__file__).parents[2] / "systemd" / "tesched.service"
#: `CommandsObserver.observe`: the configuration, jobs, nodes, partitions, reservations, and the ids.
CALLS_OF_A_LOOK = 6


@pytest.fixture(scope="module")
def unit() -> configparser.ConfigParser:
    # A key may stand twice (SystemCallFilter); the last one is kept.
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT)
    return parser


def test_it_starts_the_daemon_on_the_default_configuration(unit: configparser.ConfigParser) -> None:
    words = shlex.split(unit["Service"]["ExecStart"])
    assert words == ["/usr/bin/tesched", "daemon", "--config", str(DEFAULT_PATH)]
    # click itself has to understand them.
    command = main.commands[words[1]]
    assert command.make_context("daemon", words[2:]).params["once"] is False
    assert unit["Unit"]["ConditionPathExists"] == str(DEFAULT_PATH)
    assert f"/etc/{unit['Service']['ConfigurationDirectory']}" == str(DEFAULT_PATH.parent)


def test_the_default_store_is_in_the_only_folder_that_may_be_written(unit: configparser.ConfigParser) -> None:
    service = unit["Service"]
    assert service["ProtectSystem"] == "strict"
    assert "ReadWritePaths" not in service
    store = Path(StoreConfig().url.removeprefix("sqlite:///"))
    assert str(store.parent) == f"/var/lib/{service['StateDirectory']}"


def test_the_watchdog_outlasts_the_longest_wait_and_a_slow_look(unit: configparser.ConfigParser) -> None:
    watchdog_s = float(unit["Service"]["WatchdogSec"])
    look_s = CALLS_OF_A_LOOK * SlurmConfig().timeout_s
    assert watchdog_s > 2 * Pace().backoff_max_s + look_s


def test_a_stop_leaves_a_slow_look_and_its_command_time_to_end(unit: configparser.ConfigParser) -> None:
    service = unit["Service"]
    assert float(service["TimeoutStopSec"]) > CALLS_OF_A_LOOK * SlurmConfig().timeout_s
    # The default, control-group, would send SIGTERM to the scontrol under way as well.
    assert service["KillMode"] == "mixed"


def test_a_refused_system_call_does_not_kill(unit: configparser.ConfigParser) -> None:
    # Importing NumPy may call mbind, which the filter refuses.
    assert unit["Service"]["SystemCallErrorNumber"] == "EPERM"


def test_only_the_daemon_itself_speaks_to_systemd(unit: configparser.ConfigParser) -> None:
    service = unit["Service"]
    assert (service["Type"], service["NotifyAccess"], service["User"]) == ("notify", "main", "tesched")


def test_it_may_reach_munge_slurmctld_and_no_other_kind_of_address(unit: configparser.ConfigParser) -> None:
    service = unit["Service"]
    assert set(service["RestrictAddressFamilies"].split()) == {"AF_UNIX", "AF_INET", "AF_INET6"}
    assert service["CapabilityBoundingSet"] == ""
    assert {"munge.service", "slurmctld.service", "network-online.target"} <= set(unit["Unit"]["After"].split())
