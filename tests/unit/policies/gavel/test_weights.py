"""Weight of a job on Slurm for Gavel: what QOS, account and comment say, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from tesched_core.intake.class_rules import Classification
from tesched_core.intake.classify import classify
from tesched_core.model.snapshot import Traits
from tesched_policies.gavel.policy import Gavel
from tesched_policies.gavel.weights import Entity, JobWeights, weights

from tests.builders import NOW, waiting


def said(comment: str) -> Traits:
    return classify(replace(waiting(1), comment=comment), Classification())


def test_the_worked_example_at_the_head_of_the_file() -> None:
    standing = JobWeights(qos_weights={"high": 4.0})
    high, normal = replace(waiting(1), qos="high"), replace(waiting(2), qos="normal")
    assert standing.weight(high, said("weight=0.5")) == 2.0
    assert standing.weight(normal, said("weight=9")) == 1.0
    assert replace(standing, most_weight=5.0).weight(normal, said("weight=9")) == 5.0
    traits = {high.job_id: said("slo=7200"), normal.job_id: said("")}
    terms = standing.terms([high, normal], traits, [NOW - 3600, NOW], NOW)
    assert terms.deadline_s.tolist() == [3600.0, inf]
    assert terms.weight.tolist() == [4.0, 1.0]


@pytest.mark.parametrize("word", ["weight=0", "weight=-1", "weight=nan", "weight=1e9", "weight=99999", "weight="])
def test_a_weight_that_is_none_is_not_heard(word: str) -> None:
    assert said(word).weight is None


def test_the_words_of_a_comment() -> None:
    traits = said("be workload=resnet50 weight=0.25 slo=3600")
    assert (traits.weight, traits.slo_s, traits.workload) == (0.25, 3600.0, "resnet50")
    assert said("slo=0").slo_s is None


@pytest.mark.parametrize(
    ("entity", "names"), [("account", ["", "a", "b"]), ("user", ["u"]), ("qos", ["q"]), ("partition", ["main"])]
)
def test_an_entity_is_what_the_configuration_says(entity: str, names: list[str]) -> None:
    jobs = [
        replace(waiting(number), account=account, user="u", qos="q", partitions=("main",))
        for number, account in enumerate(["b", "a", "", "b"])
    ]
    standing = JobWeights(entity=Entity(entity), entity_weights={names[-1]: 2.0}, in_order=frozenset(names[:1]))
    terms = standing.terms(jobs, {job.job_id: said("") for job in jobs}, [NOW] * 4, NOW)
    assert [names[place] for place in terms.entity.tolist()] == [Entity(entity).of(job) for job in jobs]
    assert terms.entity_weight.tolist() == [1.0] * (len(names) - 1) + [2.0]
    assert terms.entity_kind == ("fifo", *["fairness"] * (len(names) - 1))


def test_weights_of_a_configuration() -> None:
    assert weights(["high=4", "odd=name=0.5"], "x") == {"high": 4.0, "odd=name": 0.5}
    found = Gavel(qos_weights=("high=4",), entity=Entity.USER, in_order=("ada",))
    assert found.standing == JobWeights(qos_weights={"high": 4.0}, entity=Entity.USER, in_order=frozenset({"ada"}))


@pytest.mark.parametrize("value", ["high", "=4", "high=", "high=0", "high=nan", "high=1e6", "high=-1"])
def test_a_weight_of_a_configuration_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match=r'entity_weights must hold "NAME=WEIGHT"'):
        Gavel(entity_weights=(value,))


def test_two_weights_for_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="qos_weights must name high once"):
        Gavel(qos_weights=("high=4", "high=2"))
    with pytest.raises(ValueError, match="most_weight must be between"):
        Gavel(most_weight=0)


def test_prices_are_needed_by_what_goes_by_costs_and_of_no_use_in_part() -> None:
    for name in ("cost", "cost-slo", "cost-sum", "cost-sum-slo"):
        with pytest.raises(ValueError, match=f"allocator {name} needs prices"):
            Gavel(allocator=name)
    with pytest.raises(ValueError, match="prices must name each type; missing: p100, k80"):
        Gavel(allocator="cost", types=("v100", "p100", "k80"), prices=("v100=2",))
    with pytest.raises(ValueError, match='prices must hold "TYPE=PRICE"'):
        Gavel(allocator="cost", prices=("v100",))
    assert Gavel(allocator="cost", prices=("v100=2", "k80=0.5")).prices_of(["k80", "a100", "v100"]) == [0.5, 2.0, 2.0]
    assert Gavel().prices_of(["k80", "v100"]) == [1.0, 1.0]
