"""A job of a thousand replicas among others."""

from __future__ import annotations

from pathlib import Path

import pytest

from di_kube.config import KubeConfig
from tests.integration.operator_testbed import job, task
from tools.faults.scene import Scene
from tools.faults.session import play
from tools.faults.stage import runs

pytestmark = pytest.mark.extended


def test_a_job_of_1000_replicas_lets_others_through_and_leaves_no_orphan(
    fault_server: KubeConfig, fault_folder: Path
) -> None:
    large = 1000

    async def story(stage: Scene) -> None:
        await stage.submit(job("a", task("work", large)))
        await stage.until("some of its pods", lambda: len(stage.pods()) > large // 20)
        await stage.submit(job("b", task("work", 2)))
        await stage.until(
            "the small job's pods", lambda: {"b-work-0", "b-work-1"} <= set(stage.pods())
        )
        assert len(stage.pods()) < large
        await stage.reached("Running", runs(large))
        assert len(stage.created()) == large + 2
        assert set(stage.created().values()) == {1}
        await stage.delete()
        await stage.until("nothing of it to be left", lambda: len(stage.pods()) == 2)

    play(fault_server, fault_folder, story)
