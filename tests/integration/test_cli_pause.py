"""`tesched pause`: what cannot be the end or the reason of a pause."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from tesched_cli.main import main
from tesched_testcluster.harness.store_examples import configured_store


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--for", "36501d", "Invalid value for '--for': '36501d' is above a hundred years"),
        ("--reason", "a" * 501, "Invalid value for '--reason': it has 501 characters; 500 are enough"),
        ("--for", "36500d", ""),
        ("--reason", "a" * 500, ""),
    ],
)
def test_a_pause_without_a_sensible_end_or_reason_is_refused(
    tmp_path: Path, option: str, value: str, says: str
) -> None:
    config, _ = configured_store(tmp_path)
    said = CliRunner().invoke(main, ["pause", "--config", str(config), option, value])
    assert (said.exit_code, says in said.stderr) == (2 if says else 0, True), said.output
