"""Asking a policy: one that fails, as a site's own may, proposes nothing in that cycle, and its failure is recorded."""

from __future__ import annotations

from typing import Any

from tesched_core.model.decision import Refusal, RefusalCode, Refusals
from tesched_core.policy import Policy, Proposal, View


def ask(policy: Policy[Any], view: View, state: object) -> tuple[Proposal[Any], str]:
    """Return the policy's proposal, and what went wrong, in words; empty if nothing did.

    A policy that has failed keeps its state and proposes nothing, so what it had held or throttled is put back. Each TE
    job that it should have served gets a refusal that says why.
    """
    try:
        proposal: object = policy.propose(view, state)
    except Exception as error:  # noqa: BLE001 - whatever a site's own code raises, the other policies go on
        said = f"the policy {policy.name} has failed: {type(error).__name__}: {error}"
    else:
        if isinstance(proposal, Proposal):
            return proposal, ""
        said = f"the policy {policy.name} has failed: it returned {type(proposal).__name__}, and no Proposal"
    refusals = (
        Refusal(job_id=job.job_id, preemptor=job.job_id, code=RefusalCode.POLICY_FAILED, text=said)
        for job in (view.waiting if policy.serves_te else ())
    )
    return Proposal(state=state, refusals=Refusals(refusals)), said
