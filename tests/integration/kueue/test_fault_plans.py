"""The operator is killed, refused and lied to at each moment of a job's life in a queue.

A choice of the plans; `python -m tools.faults --queued` runs them all. See `tools/faults`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.faults.conftest import chosen_parameters
from tests.integration.kueue.installation import KueueServer
from tools.faults import trace
from tools.faults.generate import generate, sample
from tools.faults.plan import Plan
from tools.faults.session import Results, Verdict, carry_out, renew_controllers
from tools.faults.workloads import QUEUED

SAMPLE = 16
PLANS: Mapping[str, Plan] = {
    plan.id: plan
    for plan in (
        *(Plan(workload=workload) for workload in QUEUED),
        *sample(generate(trace.load(QUEUED)), SAMPLE),
    )
}


@pytest.fixture(scope="module")
def results(
    request: pytest.FixtureRequest,
    kueue_server: KueueServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Results:
    """Run the plans whose tests were chosen."""
    chosen = chosen_parameters(request.session, "plan")
    renew_controllers(kueue_server.cluster)
    folder: Path = tmp_path_factory.mktemp("faults")
    return carry_out(kueue_server.config, folder, [PLANS[plan] for plan in PLANS if plan in chosen])


@pytest.fixture(scope="module")
def verdicts(results: Results) -> Mapping[str, Verdict]:
    return {verdict.run.plan.id: verdict for verdict in results.verdicts}


@pytest.mark.parametrize("plan", PLANS)
def test_the_end_is_that_of_a_clean_run(plan: str, verdicts: Mapping[str, Verdict]) -> None:
    verdict = verdicts[plan]
    assert not verdict.wrong, "\n".join((*verdict.wrong, verdict.run.logs))
