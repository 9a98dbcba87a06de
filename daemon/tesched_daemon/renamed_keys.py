"""Keys that had another name before policies had tables of their own: each gets an error that names the new one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

#: of [policy]
_POLICY: Mapping[str, str] = {
    "fitgpp_s": "fitgpp.s",
    "fitgpp_quality": "fitgpp.quality",
    "patience_s": "patient.patience_s",
    "rand_seed": "rand.seed",
    "gavel_policy": "gavel.allocator",
    **{f"gavel_{key}": f"gavel.{key}" for key in ("round_s", "solve_every_s", "types", "fills", "qos_weights")},
    **{f"gavel_{key}": f"gavel.{key}" for key in ("most_weight", "entity", "entity_weights", "in_order")},
    **{f"slaq_{key}": f"slaq.{key}" for key in ("epoch_s", "least", "throttle_step", "throttle_cool_down_s")},
    **{f"slaq_{key}": f"slaq.{key}" for key in ("priority_step", "priority_cool_down_s")},
    **{f"pdors_{key}": f"pdors.{key}" for key in ("slot_s", "slots", "floor", "rack_feature", "workloads")},
}
#: of [policy], and now of each policy that has turns
_TURNS = frozenset(
    {
        "round_max_preemptions_per_job_hour",
        "round_min_run_time_s",
        "round_max_preemptions_per_hour",
        "round_max_lost_node_hours_per_day",
    }
)


def renamed_keys(layer: Mapping[str, object]) -> Iterator[str]:
    """Yield a complaint for each old key of a file's tree."""
    policy = layer.get("policy")
    for key in policy if isinstance(policy, Mapping) else ():
        if key in _POLICY:
            yield f"policy.{key}: is now policy.{_POLICY[key]}"
        elif key in _TURNS:
            name = key.removeprefix("round_")
            yield f"policy.{key}: is now policy.gavel.{name} and policy.pdors.{name}, for each by itself"
