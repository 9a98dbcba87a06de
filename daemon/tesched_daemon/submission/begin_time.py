"""Begin times, as sbatch --begin takes them, of the forms that are read here."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta

_UNITS_S = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_FORMS = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d")


def begin_time(text: str, now: float) -> float | None:
    """Return Unix seconds of `now+2hours`, `16:00` (the next one), `2026-11-30T08:00`; None for another form."""
    found = re.fullmatch(r"now(?:\+(\d{1,9})(second|minute|hour|day|week)?s?)?", text.strip().lower())
    if found is not None:
        return now + int(found[1] or 0) * _UNITS_S[found[2] or "second"]
    found = re.fullmatch(r"(\d{1,2}):(\d{2})(?::(\d{2}))?", text)
    try:
        if found is not None:
            at = datetime.fromtimestamp(now).replace(  # noqa: DTZ006 - sbatch reads local times
                hour=int(found[1]), minute=int(found[2]), second=int(found[3] or 0), microsecond=0
            )
            return (at if at.timestamp() >= now else at + timedelta(days=1)).timestamp()
        for form in _FORMS:
            if re.fullmatch(r"[\d:T-]+", text) and len(text) == len(time.strftime(form)):
                return time.mktime(time.strptime(text, form))
    except (ValueError, OverflowError):
        return None
    return None
