"""Predictions in words, for `tesched explain`."""

from __future__ import annotations


def in_words(seconds: float) -> str:
    """Return a length of time in its two greatest units: 42 min, 3 h 5 min, 2 d 4 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(round(seconds / 3600), 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def sentence(expected_s: float, shorter: float, runs: int, likeness: str, ran_s: float) -> str:
    """Expectation in words, and on how many runs it stands."""
    if not runs:
        return f"expected {in_words(expected_s)} (it has run {in_words(ran_s)}, longer than all jobs {likeness})"
    jobs = f"{runs} {'job' if runs == 1 else 'jobs'} {likeness}"
    longer = f" that ran longer than {in_words(ran_s)}" if ran_s else ""
    return f"expected {in_words(expected_s)} ({100 * shorter:.0f} % of {jobs}{longer} ran less)"
