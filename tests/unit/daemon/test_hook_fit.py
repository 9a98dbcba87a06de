"""Enforcement of guard.bound and guard.te, as the daemon finds it at its start, at a reload, and once a minute."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tesched_core.model.cluster import SlurmSettings
from tesched_core.model.enforcement import Enforced
from tesched_core.model.limits import Bound, Limits, TeLimits, YieldBy
from tesched_daemon.admission_file import AdmissionFile
from tesched_daemon.hook_fit import EACH_S, MARKS_ALONE, HookFit
from tesched_daemon.settings import Mode

HOOK = (Path(__file__).parents[3] / "systemd" / "job_submit.lua").read_text()
BOUND = Bound(slowdown=3, te_time_limit_s=600)
SOCKET = "/run/tesched/poke.sock"


@pytest.fixture
def settings(tmp_path: Path) -> SlurmSettings:
    """Give a slurm.conf with the hook beside it."""
    (tmp_path / "job_submit.lua").write_text(HOOK)
    return SlurmSettings(conf=str(tmp_path / "slurm.conf"), job_submit=frozenset({"lua"}))


def found(fit: HookFit, settings: SlurmSettings | None, *, at: float = 0.0, **more: Any) -> tuple[Enforced, str]:
    known: dict[str, Any] = {"mode": Mode.ENFORCE, "limits": Limits(bound=BOUND), "socket": SOCKET, "at": at}
    file = AdmissionFile(path=Path("/run/tesched/admission"))
    one = fit.enforcement(settings, file, **{**known, **more})
    assert one is not None
    return one.enforced, one.why


def test_with_the_hook_it_is_enforced(settings: SlurmSettings) -> None:
    assert found(HookFit(), settings) == (Enforced.YES, "")


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.OBSERVE])
def test_in_other_modes_the_hook_is_not_examined(mode: Mode) -> None:
    assert found(HookFit(), None, mode=mode) == (Enforced.NO, f"mode {mode}")


def test_what_keeps_the_hook_from_it_is_the_reason(settings: SlurmSettings) -> None:
    assert found(HookFit(), SlurmSettings()) == (Enforced.NO, "JobSubmitPlugins has no lua")
    enforced, why = found(HookFit(), settings, socket="/elsewhere")
    assert enforced is Enforced.NO
    assert why.endswith("reads another file than /run/tesched/admission, or pokes another socket")
    hook = Path(settings.conf).with_name("job_submit.lua")
    hook.write_text(re.sub(r"return tesched_submitted\(", "tesched_submitted(", HOOK))
    assert found(HookFit(), settings)[0] is Enforced.PARTLY
    hook.unlink()
    assert found(HookFit(), settings) == (Enforced.UNKNOWN, f"{hook}: No such file or directory")


def test_marks_alone_keep_it_in_part(settings: SlurmSettings) -> None:
    limits = Limits(bound=BOUND, lever=YieldBy.PLUGIN)
    assert found(HookFit(), settings, limits=limits) == (Enforced.PARTLY, MARKS_ALONE)
    limits = Limits(te=TeLimits(max_running_per_user=1), lever=YieldBy.PLUGIN)
    assert found(HookFit(), settings, limits=limits) == (Enforced.YES, "")


def test_an_admission_file_that_cannot_be_written_holds_nothing(settings: SlurmSettings, tmp_path: Path) -> None:
    file = AdmissionFile(path=tmp_path / "admission" / "below")
    (tmp_path / "admission").mkdir()
    file.path.mkdir()
    file.withdraw()
    one = HookFit().enforcement(settings, file, mode=Mode.ENFORCE, limits=Limits(bound=BOUND), socket=SOCKET, at=0)
    assert one is not None
    assert one.enforced is Enforced.NO
    assert one.why.startswith("the admission file cannot be removed")


def test_the_hook_is_read_again_each_minute_and_where_slurm_conf_has_changed(settings: SlurmSettings) -> None:
    fit = HookFit()
    hook = Path(settings.conf).with_name("job_submit.lua")
    assert found(fit, settings)[0] is Enforced.YES
    hook.write_text("-- nothing")
    assert found(fit, settings, at=EACH_S - 1)[0] is Enforced.YES
    # Slurm is not seen: what was known of it stands.
    assert found(fit, None, at=EACH_S)[0] is Enforced.NO
    hook.write_text(HOOK)
    assert found(fit, SlurmSettings(), at=EACH_S + 1) == (Enforced.NO, "JobSubmitPlugins has no lua")
    assert found(fit, settings, at=EACH_S + 2)[0] is Enforced.YES


def test_before_slurm_was_seen_it_is_not_known() -> None:
    assert found(HookFit(), None) == (Enforced.UNKNOWN, "Slurm has not been seen yet")


def test_without_limits_nothing_is_enforced() -> None:
    file = AdmissionFile(path=Path("/run/tesched/admission"))
    found = HookFit().enforcement(None, file, mode=Mode.ENFORCE, limits=Limits(), socket=SOCKET, at=0)
    assert found is None
