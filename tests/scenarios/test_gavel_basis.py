"""What gavel divides time by may change while no job comes or goes: a reload, a new table of speeds, a user's word.

Everywhere: nodes, jobs and rounds are those of `test_gavel_rounds.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tesched_core.model.actions import Notify
from tesched_core.model.resources import JobId
from tesched_policies.gavel.policy import Gavel

from tests.builders import NOW
from tests.scenarios import test_gavel_sharing as sharing
from tests.scenarios.test_gavel_rounds import A, C, Site, on, queued


def reload(site: Site, **keys: Any) -> None:
    """Read the configuration again, with other values of these keys."""
    assert isinstance(site.best_effort, Gavel)
    site.best_effort = replace(site.best_effort, **keys)


def shares_on_v(site: Site) -> dict[int, float]:
    return {int(job_id): known.share[0] for job_id, known in site.state("gavel").jobs.items()}


def one_gpu(named: str = "las") -> Site:
    """Return a site of one GPU, which has divided its time by halves between A, which runs, and C, of another QOS."""
    jobs = (on(A, "v"), replace(queued(C), qos="high", account="speech"))
    site = Site(*jobs, speeds={A: {"v100": 2}, C: {"v100": 2}}, named=named)
    site.nodes.pop("k")
    site.obeys(*site.cycle(0))
    assert shares_on_v(site) == pytest.approx({A: 0.5, C: 0.5})
    return site


@pytest.mark.parametrize(
    ("named", "after", "shares"),
    [
        ("las", {"allocator": "fifo"}, {A: 1, C: 0}),
        ("las", {"qos_weights": ("high=3",)}, {A: 0.25, C: 0.75}),
        ("hierarchical", {"entity_weights": ("speech=3",)}, {A: 0.25, C: 0.75}),
    ],
)
def test_what_a_reload_changes_counts_from_the_next_round_on(
    named: str, after: Mapping[str, Any], shares: Mapping[int, float]
) -> None:
    site = one_gpu(named)
    reload(site, **after)
    site.cycle(300)
    assert shares_on_v(site) == pytest.approx({A: 0.5, C: 0.5}), "this round stays as it is"
    site.cycle(361)
    assert shares_on_v(site) == pytest.approx(shares, abs=1e-6)


def test_a_users_word_on_its_weight_counts_from_the_next_round_on() -> None:
    site = one_gpu()
    traits = site.start.traits
    site.start = site.start.with_traits({**traits, JobId(C): replace(traits[JobId(C)], weight=1 / 3)})
    site.cycle(361)
    assert shares_on_v(site) == pytest.approx({A: 0.75, C: 0.25})


def test_by_another_allocator_no_job_leaves_for_a_turn_that_is_none_any_more() -> None:
    site = one_gpu()
    reload(site, allocator="fifo")
    assert not any(isinstance(action, Notify) for action in site.cycle(361)), "A came first"


def test_another_price_and_another_speed_count_from_the_next_round_on() -> None:
    # By the price A gets 4 of 1 and 1 of 1, or 1 of 0.2; C less of each. With 10 steps/s it gets 10 of 1 on v.
    speeds: dict[int, dict[str, float]] = {A: {"v100": 4, "k80": 1}, C: {"v100": 3, "k80": 0.5}}
    site = Site(on(A, "v"), queued(C), speeds=speeds, named="cost", weights={"prices": ("v100=1", "k80=1")})
    site.cycle(0)
    assert shares_on_v(site) == pytest.approx({A: 1, C: 0}, abs=1e-6)
    reload(site, prices=("v100=1", "k80=0.2"))
    site.cycle(361)
    assert shares_on_v(site) == pytest.approx({A: 0, C: 0}, abs=1e-6)
    site.speeds[JobId(A)]["v100"] = 10
    site.cycle(721)
    assert shares_on_v(site) == pytest.approx({A: 1, C: 0}, abs=1e-6)


def test_other_speeds_beside_each_other_count_from_the_next_round_on(monkeypatch: pytest.MonkeyPatch) -> None:
    site = sharing.Site(sharing.on(A, "v"), sharing.queued(C))
    site.cycle(0)
    assert len(site.state("gavel").pairs) == 1
    monkeypatch.setattr(sharing, "BESIDE", {("light", "light"): {"v100": 1.0, "k80": 0.2}})
    site.cycle(361)
    assert not site.state("gavel").pairs, "each does less than by turns"


def test_a_speed_that_is_measured_anew_divides_no_time_while_it_is_as_good_as_the_same() -> None:
    site = one_gpu()
    for turn, (speed, divided_at) in enumerate([(2.01, 0), (1.99, 0), (2.05, 1080)], start=1):
        site.speeds[JobId(A)]["v100"] = speed
        site.cycle(360 * turn)
        assert site.state("gavel").solved_at == NOW + divided_at


def test_what_an_earlier_release_remembers_is_read_and_divided_anew_once() -> None:
    site = one_gpu()
    kept = msgspec.to_builtins(site.state("gavel"), str_keys=True)
    del kept["rests_on"]
    for one in kept["jobs"].values():
        del one["speeds"], one["counts"]
    old = msgspec.convert(kept, type(site.state("gavel")), str_keys=True)
    site.memory = replace(site.memory, policy_states={"gavel": old})
    for at_s, divided_at in ((361, 361), (721, 361)):
        site.cycle(at_s)
        assert site.state("gavel").solved_at == NOW + divided_at


@pytest.mark.parametrize(("at_s", "began_s"), [(60, 60), (100, 60), (200, 200)])
def test_a_round_that_is_shorter_by_now_ends_sooner(at_s: float, began_s: float) -> None:
    # It began at 0 s, and rounds take 60 s now; after more than one of these the beat begins anew.
    site = one_gpu()
    reload(site, round_s=60.0)
    site.cycle(59)
    assert site.state("gavel").began_at == NOW
    assert site.decision.next_at == NOW + 60
    site.cycle(at_s)
    state = site.state("gavel")
    assert (state.began_at, state.ends_at) == (NOW + began_s, NOW + began_s + 60)
