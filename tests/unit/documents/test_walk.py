"""How often one reconcile step passes a job back to a module that had it before."""

from __future__ import annotations

from tools.documents.walk import calls, returns

MOST_RETURNS = 25
"""It may only go down."""


def test_a_reconcile_step_passes_the_job_back_no_more_than_it_did() -> None:
    back = [f"{call.module} {call.function}" for call in returns(calls())]
    assert len(back) <= MOST_RETURNS, back
