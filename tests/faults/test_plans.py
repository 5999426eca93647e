"""Every plan that has found a bug so far, and in `make test-all` a few of all others.

All of them run side by side when the first is asked for; each then has a test of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from di_kube.config import KubeConfig
from tests.faults.conftest import chosen_parameters
from tools.faults import trace
from tools.faults.generate import generate, sample
from tools.faults.plan import Plan
from tools.faults.regressions import REGRESSIONS
from tools.faults.session import Results, Verdict, carry_out
from tools.faults.workloads import WORKLOADS

EVERY = 12
"""Of one plan for each rule in each workload, every twelfth is tried."""
_ALL = generate(trace.load(WORKLOADS))
PLANS: Mapping[str, Plan] = {
    plan.id: plan
    for plan in (
        *(Plan(workload=workload) for workload in WORKLOADS),
        *sample(tuple(plan for plan in _ALL if not plan.is_frozen), 1)[::EVERY],
        *REGRESSIONS,
    )
}


@pytest.fixture(scope="module")
def results(
    request: pytest.FixtureRequest, fault_server: KubeConfig, fault_folder: Path
) -> Results:
    """Run the plans whose tests were chosen."""
    chosen = chosen_parameters(request.session, "plan")
    return carry_out(fault_server, fault_folder, [PLANS[plan] for plan in PLANS if plan in chosen])


@pytest.fixture(scope="module")
def verdicts(results: Results) -> Mapping[str, Verdict]:
    return {verdict.run.plan.id: verdict for verdict in results.verdicts}


@pytest.mark.parametrize(
    "plan",
    [
        each.id if each in REGRESSIONS else pytest.param(each.id, marks=pytest.mark.extended)
        for each in PLANS.values()
    ],
)
def test_the_end_is_that_of_a_clean_run(plan: str, verdicts: Mapping[str, Verdict]) -> None:
    verdict = verdicts[plan]
    assert not verdict.wrong, "\n".join((*verdict.wrong, verdict.run.logs))


def test_the_operator_writes_what_the_recorded_traces_say(results: Results) -> None:
    """Otherwise plans miss their moment: record again with `python -m tools.faults --record`."""
    recorded = trace.load(WORKLOADS)
    for workload, written in results.clean_writes.items():
        # In any of the runs: on a busy machine a replica may lose its lease in one of them.
        missing = [
            write
            for write in recorded[workload].writes
            if write.what != "events" and write not in written
        ]
        # Changes that are seen at once are one patch of the status.
        assert all(write.what == "dijobs/status" for write in missing), (workload, missing)
