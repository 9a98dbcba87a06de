"""Registry: the policies that are installed, and the table [policy] of the configuration.

A policy is found by an entry point of the group `tesched.policies`, so that a site's own policy is a Python package of
its own (docs/howto/write-a-policy.md). Its fields are the keys of [policy.NAME].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass, make_dataclass, replace
from enum import StrEnum
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Annotated, Any

from tesched_core.policy import Policy, PolicyEntry, with_scopes

GROUP = "tesched.policies"
#: the word for "no policy manages BE jobs"
NO_POLICY = "none"


def _installed() -> tuple[dict[str, type[Policy[Any]]], dict[str, str]]:
    """Return the installed policies by name, tesched's own first; and what is wrong with those that cannot be used."""
    found: dict[str, type[Policy[Any]]] = {}
    broken: dict[str, str] = {}
    points = sorted(
        entry_points(group=GROUP), key=lambda one: (not one.value.startswith("tesched_policies."), one.name)
    )
    for point in points:
        try:
            kind: type[Policy[Any]] = point.load()
        except Exception as error:  # noqa: BLE001 - whatever a foreign module raises, the message names it
            broken[point.name] = f"{_where(point)}: {type(error).__name__}: {error}"
            continue
        if not _is_policy(kind):
            what = "it is no dataclass that inherits from tesched_core.policy.Policy, whose State can be `shifted`"
            broken[point.name] = f"{_where(point)}: {what}"
        elif point.name != kind.name or point.name in found or not point.name.isidentifier():
            broken[point.name] = f"{_where(point)}: the policy calls itself {kind.name!r}, or another one has its name"
        else:
            found[point.name] = kind
    return found, broken


def _where(point: EntryPoint) -> str:
    """Object that the entry point names, and its package, for which that package's metadata is read."""
    return f"{point.value}, of {point.dist.name if point.dist else 'no package'}"


def _is_policy(kind: object) -> bool:
    if not isinstance(kind, type) or not issubclass(kind, Policy):
        return False
    kept = getattr(kind, "State", None)
    keeps = kept is None or (is_dataclass(kept) and hasattr(kept, "shifted"))
    return keeps and is_dataclass(kind)


INSTALLED: Mapping[str, type[Policy[Any]]]
#: what is wrong with installed policies that cannot be used, by name
BROKEN: Mapping[str, str]
INSTALLED, BROKEN = _installed()
STATES: Mapping[str, type[Any]] = {name: kind.State for name, kind in INSTALLED.items() if kind.State is not None}

if TYPE_CHECKING:
    TePolicyName = StrEnum("TePolicyName", {"FITGPP": "fitgpp"})
    BePolicyName = StrEnum("BePolicyName", {"NONE": "none"})
else:
    TePolicyName = StrEnum(
        "TePolicyName", {name: name for name, kind in INSTALLED.items() if kind.serves_te}, module=__name__
    )
    BePolicyName = StrEnum(
        "BePolicyName", {name: name for name, kind in INSTALLED.items() if not kind.serves_te}, module=__name__
    )


FITGPP = TePolicyName("fitgpp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shorthand:
    """A list of tables, in which the value of one key may stand for a table, or a single value for the whole list."""

    key: str
    #: the value that stands for the empty list
    nothing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BeEntry:
    """A policy for BE jobs, and which of them it manages."""

    #: the policy
    name: BePolicyName
    #: partitions of the jobs that it manages; empty: any
    partitions: tuple[str, ...] = ()
    #: QOS of the jobs that it manages; empty: any
    qos: tuple[str, ...] = ()


_BY_NAME = Shorthand(key="name", nothing=NO_POLICY)


@dataclass(frozen=True, kw_only=True)
class PolicyChoice:
    """[policy]: which policies plan, and their tables, one attribute each (`PolicyConfig`)."""

    te: TePolicyName = FITGPP
    #: in this order after `te`; no job has two policies, and the first comes first
    be: Annotated[tuple[BeEntry, ...], _BY_NAME] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for an entry that would never manage a job, and for a weight of gains that none reports."""
        covered: list[BeEntry] = []
        for entry in self.be:
            if any(one.name == entry.name for one in covered):
                raise ValueError(f"be names {entry.name} twice; a policy has one entry, which may list partitions")
            over = next((one.name for one in covered if not (one.partitions or one.qos)), None)
            if over is not None:
                raise ValueError(
                    f"be: {entry.name} would manage no job, since {over} before it manages all; "
                    f'give {over} its partitions: [[policy.be]] name = "{over}", partitions = ["…"]'
                )
            covered.append(entry)
        if getattr(self.table("fitgpp"), "quality", 0) and not any(
            INSTALLED[entry.name].gains is not Policy.gains for entry in self.be
        ):
            raise ValueError('fitgpp.quality must be 0 where no policy of policy.be foretells gains ("slaq" does)')

    def table(self, name: str) -> Any:
        """Return the policy of this name, as its table configures it."""
        return getattr(self, name)

    def with_table(self, policy: Policy[Any]) -> PolicyConfig:
        """Return the configuration with this policy's table."""
        tables: dict[str, Any] = {policy.name: policy}
        return replace(self, **tables)

    def has(self, name: str) -> bool:
        """Check whether this policy manages BE jobs."""
        return any(entry.name == name for entry in self.be)

    def entries(self) -> tuple[PolicyEntry, ...]:
        """Policies that plan, in their order."""
        be = ((self.table(entry.name), entry.partitions, entry.qos) for entry in self.be)
        return with_scopes([(self.table(self.te), (), ()), *be])


if TYPE_CHECKING:
    PolicyConfig = PolicyChoice
else:
    PolicyConfig = make_dataclass(
        "PolicyConfig",
        [(name, kind, field(default_factory=kind)) for name, kind in INSTALLED.items()],
        bases=(PolicyChoice,),
        frozen=True,
        kw_only=True,
        namespace={"__doc__": PolicyChoice.__doc__, "__module__": __name__},
    )


def policy_config(te: str = "fitgpp", be: str | tuple[BeEntry, ...] = (), **tables: Policy[Any]) -> PolicyConfig:
    """Return a configuration; `be` is a name or entries, `tables` are policies by name."""
    entries = (BeEntry(name=BePolicyName(be)),) if isinstance(be, str) and be != NO_POLICY else be
    return PolicyConfig(te=TePolicyName(te), be=entries if isinstance(entries, tuple) else (), **tables)


def normal_be(value: object) -> object:
    """Normalise `be` to a list of tables: "gavel" and ["gavel"] stand for {name = "gavel"}."""
    if isinstance(value, str):
        return [] if value == _BY_NAME.nothing else [{_BY_NAME.key: value}]
    if isinstance(value, list):
        return [{_BY_NAME.key: one} if isinstance(one, str) else one for one in value]
    return value
