"""What `tesched doctor` says of guard.bound: enforced by the submission hook, or only measured."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from tesched_core.intake.class_rules import Classification, Match, NoticeRule, Rule, UserWord
from tesched_core.model.cluster import SlurmSettings
from tesched_core.model.limits import Bound, Limits, TeLimits
from tesched_core.model.snapshot import JobClass
from tesched_daemon.config import Config
from tesched_daemon.doctor.bound import CHECK, GRACE, examine
from tesched_daemon.doctor.finding import Finding, Severity
from tesched_daemon.settings import Mode

HOOK = (Path(__file__).parents[4] / "systemd" / "job_submit.lua").read_text()
BOUNDED = Config(mode=Mode.ENFORCE, guard=Limits(bound=Bound(slowdown=3, te_time_limit_s=1800)))


def of_hook(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings on the submission hook."""
    return [one for one in findings if one.check == CHECK]


INSTALLED = "what guard.bound says is kept by the submission hook, which is installed"
MEASURED = "what guard.bound says is measured, not enforced: without the submission hook Slurm starts TE jobs by itself"


def slurm(folder: Path, *plugins: str) -> SlurmSettings:
    """Return slurm.conf in this folder, with these submission plugins."""
    return SlurmSettings(conf=str(folder / "slurm.conf"), job_submit=frozenset(plugins or ("lua",)))


@pytest.mark.parametrize(
    ("plugins", "hook", "level", "text"),
    [
        ("lua", HOOK, Severity.OK, INSTALLED),
        ("require_timelimit, lua", HOOK, Severity.OK, INSTALLED),
        ("(null)", HOOK, Severity.WARN, f"{MEASURED}; JobSubmitPlugins has no lua"),
        ("lua", "-- an older one", Severity.WARN, "knows no admission file"),
        ("lua", HOOK.replace("/run/tesched/admission", "/elsewhere"), Severity.WARN, "reads another file"),
        ("lua", HOOK.replace("/run/tesched/poke.sock", "/elsewhere"), Severity.WARN, "pokes another socket"),
        ("lua", None, Severity.WARN, "cannot be seen here"),
        ("lua", re.sub("^", "-- ", HOOK, flags=re.MULTILINE), Severity.WARN, "knows no admission file"),
        ("lua", f"--[==[\n{HOOK}]==]\n", Severity.WARN, "knows no admission file"),
        (
            "lua",
            HOOK.replace("    return tesched_submitted(job", "    -- return tesched_submitted(job"),
            Severity.WARN,
            "never calls",
        ),
        ("lua", HOOK.replace("    tesched_modified(job", "    -- "), Severity.WARN, "never calls tesched_modified"),
    ],
    ids=[
        *("installed", "beside another", "no lua", "older", "other file", "other socket"),
        *("not here", "commented out", "in a long comment", "never called", "no changes"),
    ],
)
def test_it_says_whether_the_bound_is_enforced(
    tmp_path: Path, plugins: str, hook: str | None, level: Severity, text: str
) -> None:
    if hook is not None:
        (tmp_path / "job_submit.lua").write_text(hook)
    *_, finding = of_hook(examine(BOUNDED, slurm(tmp_path, *plugins.split(", "))))
    assert finding.level is level
    assert text in finding.text


def test_in_mode_shadow_the_hook_enforces_nothing(tmp_path: Path) -> None:
    (tmp_path / "job_submit.lua").write_text(HOOK)
    (finding,) = of_hook(examine(replace(BOUNDED, mode=Mode.SHADOW), slurm(tmp_path)))
    assert (finding.level, finding.text) == (
        Severity.OK,
        f"the submission hook is installed: {tmp_path / 'job_submit.lua'}",
    )


def test_without_a_bound_nothing_is_said() -> None:
    assert [*examine(Config(), SlurmSettings())] == []


def test_a_hook_that_drops_the_answer_refuses_no_job(tmp_path: Path) -> None:
    hook = tmp_path / "job_submit.lua"
    values = slurm(tmp_path)
    limited = Config(guard=Limits(te=TeLimits(max_submitted_per_user=2)))
    hook.write_text(HOOK)
    assert [one.level for one in examine(limited, values)] == [Severity.OK]
    hook.write_text(HOOK.replace("    return tesched_submitted(job", "    tesched_submitted(job"))
    *_, finding = examine(limited, values)
    assert "drops the answer of tesched_submitted: no TE job is refused" in finding.text
    assert [one.level for one in of_hook(examine(BOUNDED, values))] == [Severity.OK, Severity.WARN]
    hook.write_text(HOOK.replace("MOST_ARRAY_TEXT", "MOST"))
    (finding,) = of_hook(examine(BOUNDED, values))
    assert "is kept in part" in finding.text
    assert "is of an earlier release" in finding.text


def test_limits_on_te_jobs_need_the_hook_too() -> None:
    (finding,) = examine(Config(guard=Limits(te=TeLimits(max_running_per_user=1))), SlurmSettings())
    assert finding.text.startswith("what guard.te says is measured, not enforced")


@pytest.mark.parametrize(
    ("classes", "level", "key"),
    [
        (Classification(), Severity.WARN, "classes.user_word.max_grace_period_s"),
        (
            Classification(user_word=UserWord(max_grace_period_s=211)),
            Severity.OK,
            "classes.user_word.max_grace_period_s",
        ),
        (
            Classification(
                rules=(
                    Rule(name="long", job_class=JobClass.BE, match=Match(partitions=("long",)), grace_period_s=212),
                ),
                user_word=UserWord(max_grace_period_s=60),
            ),
            Severity.WARN,
            "classes.rules[0].grace_period_s",
        ),
        (
            Classification(
                notice_rules=(NoticeRule(name="a"), NoticeRule(name="b", grace_period_s=900)),
                user_word=UserWord(max_grace_period_s=600),
            ),
            Severity.WARN,
            "classes.notice_rules[1].grace_period_s",
        ),
        (
            Classification(
                rules=(Rule(name="admins", job_class=JobClass.EXEMPT, grace_period_s=900),),
                user_word=UserWord(max_grace_period_s=60),
            ),
            Severity.OK,
            "classes.user_word.max_grace_period_s",
        ),
        (
            Classification(
                rules=(
                    Rule(
                        name="trials",
                        job_class=JobClass.TE,
                        match=Match(max_time_limit_s=1800),
                        grace_period_s=900,
                    ),
                ),
                user_word=UserWord(max_grace_period_s=60),
            ),
            Severity.WARN,
            "classes.rules[0].grace_period_s",
        ),
    ],
    ids=[
        *("a user's word, by default", "as long as counted on", "a rule", "a notice rule"),
        *("a rule of exempt jobs", "a rule of TE jobs, which be or a raised time limit makes victims"),
    ],
)
def test_a_grace_period_that_the_bound_does_not_count_on_is_found(
    classes: Classification, level: Severity, key: str
) -> None:
    """Requeue delay 121 s, min_run_time_s 60 s and backoff_max_s 30 s, the defaults, are 211 s together."""
    (finding,) = [one for one in examine(replace(BOUNDED, classes=classes), SlurmSettings()) if one.check == GRACE]
    assert finding.level is level
    assert key in finding.text
    assert not finding.advice or finding.advice == f"let {key} be 211 or less"
