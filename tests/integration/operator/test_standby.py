"""Pods that stand by, before a real API server."""

from __future__ import annotations

import pytest

from di_api.kube.config import KubeConfig
from di_api.names import LABEL_IN_SERVICE, LABEL_STANDBY
from tests.integration.operator_testbed import Object, Testbed, job, on_testbed, task

pytestmark = pytest.mark.usefixtures("crd")

FIRST, SECOND, BY, NEXT = (f"a-work-{each}" for each in ("0", "1", "standby-0", "standby-1"))


def test_a_replica_that_fails_is_replaced_by_a_pod_that_stood_by(
    kube_config: KubeConfig, namespace: str
) -> None:
    group = {"elastic": True, "lastCallSeconds": 60, "deadlineSeconds": 600}
    work = {
        **task("work", 2, stop_after="0.1"),
        **{"minReplicas": 2, "maxReplicas": 3, "standby": 1, "processGroup": group},
        "service": {"ports": [{"name": "http", "port": 80}]},
    }

    async def body(testbed: Testbed) -> None:
        def is_ready(pod: Object | None) -> bool:
            conditions = ((pod or {}).get("status") or {}).get("conditions") or ()
            return any((c["type"], c["status"]) == ("Ready", "True") for c in conditions)

        async def stands_by(name: str) -> bool:
            return is_ready((await testbed.pods("a")).get(name))

        async def world() -> Object:
            groups = (await testbed.status("a")).get("groups") or {}
            found: Object = groups.get("work") or {}
            return found

        async def is_formed(generation: int) -> bool:
            found = await world()
            return (found.get("generation"), found.get("state")) == (generation, "Formed")

        async def is_alone() -> bool:
            return {*await testbed.pods("a")} == {FIRST, BY, NEXT}

        async with testbed.operator():
            await testbed.submit(job("a", work))
            await testbed.until(lambda: stands_by(BY), "one that stands by")
            await testbed.until(lambda: is_formed(1), "a world")
            before = await testbed.pods("a")
            assert LABEL_IN_SERVICE not in before[BY]["metadata"]["labels"]

            await testbed.kubelet.finish(namespace, SECOND, exit_code=1)
            await testbed.until(lambda: is_formed(2), "the next world")
            members = (await world())["members"]
            assert members == {
                "0": before[FIRST]["metadata"]["uid"],
                "1": before[BY]["metadata"]["uid"],
            }
            status = await testbed.status("a")
            assert status["standIns"] == {"work": {"1": BY}}

            await testbed.until(is_alone, "the failed one to be gone, and another to stand by")
            await testbed.phase("a", "Running")
            pods = await testbed.pods("a")
            marks = pods[BY]["metadata"]
            assert marks["annotations"]["diengine/rank"] == "1"
            assert marks["labels"][LABEL_IN_SERVICE] == "true"
            assert LABEL_STANDBY not in marks["labels"]
            assert LABEL_STANDBY in pods[NEXT]["metadata"]["labels"]
            status = await testbed.status("a")
            assert (status["restarts"], status["reschedules"]) == (1, 0)

    on_testbed(kube_config, namespace, body)
