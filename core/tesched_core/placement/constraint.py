"""Constraints: node features of `--constraint`, and the requests that placement does not model."""

from __future__ import annotations

import re


class UnsupportedRequestError(ValueError):
    """The job's request has a part that placement does not model; it is left to Slurm. The text names it."""


class UnsupportedConstraintError(UnsupportedRequestError):
    """A feature expression that tesched cannot weigh."""

    def __init__(self, expression: str) -> None:
        """Name the expression."""
        super().__init__(f"--constraint={expression}")


_FEATURE_PART = re.compile(r"([\w.:/=-]+)|(\S)")
#: Parentheses in an expression: each is read by a call within the call before.
_MOST_PARENTHESES = 100


def features_named(expression: str) -> frozenset[str]:
    """Names of features in a `--constraint` expression."""
    return frozenset(word for word, _ in _FEATURE_PART.findall(expression) if word)


def has_features(expression: str, features: frozenset[str]) -> bool:
    """Check whether a node with these features satisfies a `--constraint` expression of `&`, `|` and parentheses.

    Raises UnsupportedConstraintError for what is not about one node alone: counts (`a*2`) and matching (`[a|b]`).
    Source: sbatch(1), --constraint.
    """
    if expression.count("(") > _MOST_PARENTHESES:
        raise UnsupportedConstraintError(expression)
    parts = [word or other for word, other in _FEATURE_PART.findall(expression)]
    position = 0

    def peek() -> str:
        return parts[position] if position < len(parts) else ""

    def take() -> str:
        nonlocal position
        position += 1
        return parts[position - 1] if position <= len(parts) else ""

    def factor() -> bool:
        part = take()
        if part == "(":
            value = alternatives()
            if take() != ")":
                raise UnsupportedConstraintError(expression)
            return value
        if not re.fullmatch(r"[\w.:/=-]+", part):
            raise UnsupportedConstraintError(expression)
        return part in features

    def alternatives() -> bool:
        # Slurm reads & and | from left to right, with the same rank.
        value = factor()
        while peek() in {"&", "|", ","}:
            both = take() != "|"
            right = factor()
            value = (value and right) if both else (value or right)
        return value

    result = alternatives()
    if position != len(parts):
        raise UnsupportedConstraintError(expression)
    return result
