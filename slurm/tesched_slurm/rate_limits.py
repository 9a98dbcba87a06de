"""slurmctld's limit on a user's RPCs, from what `scontrol show config` says."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tesched_core.model.rate_limit import RateLimit

from tesched_slurm.cluster_bounds import setting

#: the first release that has it; an older one ignores the word
SINCE = (23, 2)


def site_limit(values: Mapping[str, str]) -> RateLimit | None:
    """Return the site's limit; None if there is none, as in releases that know no such setting.

    Raises ValueError for a number out of all bounds.
    """
    release = tuple(map(int, re.findall(r"\d+", values.get("SLURM_VERSION", ""))[:2]))
    said: dict[str, str] = {}
    for word in values.get("SlurmctldParameters", "").lower().split(","):
        key, _, value = word.strip().partition("=")
        said.setdefault(key, value)
    if release < SINCE or "rl_enable" not in said:
        return None

    def number(key: str, default: int) -> int:
        value = said.get(key, "")
        return max(setting(f"{key} of SlurmctldParameters", value), 1) if value.isdecimal() else default

    return RateLimit(
        burst=number("rl_bucket_size", 30), per_s=number("rl_refill_rate", 2) / number("rl_refill_period", 1)
    )


def limit_of(values: Mapping[str, str], user_id: int) -> RateLimit | None:
    """Return the limit on this user's RPCs; None if there is none, as for root and SlurmUser."""
    slurm_user = re.search(r"\((\d+)\)", values.get("SlurmUser", ""))
    exempt = {0, int(slurm_user[1])} if slurm_user else {0}
    return None if user_id in exempt else site_limit(values)
