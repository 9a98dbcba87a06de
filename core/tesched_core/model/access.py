"""Whose jobs a partition starts, beside AllowAccounts and AllowQos."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAccess:
    """Settings of a partition that keep jobs out of it, as they are now."""

    #: no job of these (DenyAccounts, DenyQos); Slurm reads neither where AllowAccounts, or AllowQos, has any
    deny_accounts: frozenset[str] = frozenset()
    deny_qos: frozenset[str] = frozenset()
    #: users of one of these groups alone (AllowGroups); empty means every user
    allow_groups: frozenset[str] = frozenset()
    #: root's and SlurmUser's jobs alone (RootOnly)
    root_only: bool = False
    #: jobs in a reservation alone (ReqResv)
    needs_reservation: bool = False
    #: the QOS whose limits count for each of its jobs, too (QoS); empty without one
    qos: str = ""


#: one that keeps no job out
OPEN = PartitionAccess()
