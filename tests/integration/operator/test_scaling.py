"""Changing the number of replicas while a job runs."""

from __future__ import annotations

import pytest

from tests.integration.operator_testbed import Testbed, job, task, with_testbed

pytestmark = pytest.mark.usefixtures("crd")


@with_testbed
async def test_the_replicas_of_a_large_job_cost_one_create_each(testbed: Testbed) -> None:
    async with testbed.operator():
        await testbed.submit(job("a", task(replicas=120)))
        status = await testbed.phase("a", "Running")
        assert status["readyReplicas"] == 120
        assert set(testbed.created.values()) == {1}
        assert len(testbed.created) == 120
        assert sorted((await testbed.ranks("a")).values()) == list(range(120))
