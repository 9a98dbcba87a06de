"""`tesched doctor` on where slaq hears of losses."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_daemon.doctor.doctor import examine


@pytest.mark.parametrize(
    ("be", "spool", "expected"),
    [
        ("none", None, None),
        ("slaq", None, "reports.spool is empty"),
        ("slaq", "missing", "there is no folder"),
        ("slaq", "spool", ""),
    ],
)
def test_slaq_without_losses_is_pointed_out(tmp_path: Path, be: str, spool: str | None, expected: str | None) -> None:
    (tmp_path / "spool").mkdir()
    config = tmp_path / "tesched.toml"
    where = f'[reports]\nspool = "{tmp_path / spool}"\n' if spool else ""
    # Slurm is not queried: what its configuration file would say is missing.
    config.write_text(f'[policy]\nbe = "{be}"\n[slurm]\nconf = "/nowhere/slurm.conf"\n{where}')
    found = {one.check: one for one in examine(config)}
    if expected is None:
        assert "losses" not in found
    else:
        assert expected in found["losses"].text
        assert (found["losses"].advice == "") == (expected == "")
