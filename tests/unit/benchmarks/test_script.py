"""The bare client's script is what the operator would write."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from di_api.kube.resources import CONFIGMAPS, SERVICES
from tools.benchmarks.script import Create, Delete, Script, rehearse
from tools.benchmarks.workloads import job

UID = "5b2e2c3e-0000-4000-8000-000000000001"


def script(replicas: int) -> Script:
    body = job("rehearsal-000000", replicas)
    body["metadata"] |= {"namespace": "rl", "uid": UID}
    return rehearse(body)


def test_a_job_of_four_pods_is_nine_writes() -> None:
    found = script(4)
    assert found.writes == 9
    started = [write for step in found.start for write in step.objects]
    assert [isinstance(write, Create) for write in started] == [True] * 5
    assert [step.objects for step in found.ready] == [()]
    assert [write for step in found.end for write in step.objects] == [
        Delete(resource=SERVICES, name="di-rehearsal-000000")
    ]


def phases(found: Script) -> list[str]:
    statuses = [step.status for step in (*found.start, *found.ready, *found.end)]
    return [orjson.loads(status)["phase"] for status in statuses if status is not None]


@pytest.mark.parametrize("replicas", [1, 4, 64, 150])
def test_every_phase_is_written_once(replicas: int) -> None:
    assert phases(script(replicas)) == ["Starting", "Running", "Succeeded"]


def test_a_large_jobs_node_lists_are_made_and_removed() -> None:
    found = script(150)
    writes = [write for step in (*found.start, *found.end) for write in step.objects]
    made, removed = (write for write in writes if write.resource == CONFIGMAPS)
    assert isinstance(made, Create)
    assert isinstance(removed, Delete)


def test_a_filled_body_is_another_jobs_own() -> None:
    found = script(4)
    texts = [w.text for s in found.start for w in s.objects if isinstance(w, Create)]
    pod: dict[str, Any] = found.fill(texts[1], name="bench-000007", uid="other-uid")
    assert pod["metadata"]["name"] == "bench-000007-work-0"
    assert pod["metadata"]["ownerReferences"][0]["uid"] == "other-uid"
    assert "rehearsal" not in orjson.dumps(pod).decode()
    assert pod["spec"]["nodeName"] == "fake-node"
