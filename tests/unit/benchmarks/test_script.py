"""The bare client's script is what the operator would write."""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from di_api.kube.resources import CONFIGMAPS, SERVICES
from tools.benchmarks.script import Create, Delete, Script, rehearse
from tools.benchmarks.workloads import job


def script(replicas: int) -> Script:
    body = job("rehearsal-000000", replicas)
    body["metadata"] |= {"namespace": "rl", "uid": "5b2e2c3e-0000-4000-8000-000000000001"}
    return rehearse(body)


def phases(found: Script) -> Iterator[str]:
    for step in (*found.start, *found.ready, *found.end):
        if step.status is not None:
            yield orjson.loads(step.status)["phase"]


def test_a_job_of_four_pods_is_nine_writes() -> None:
    found = script(4)
    assert found.writes == 9
    started = [write for step in found.start for write in step.objects]
    assert [isinstance(write, Create) for write in started] == [True] * 5
    assert [write for step in found.end for write in step.objects] == [
        Delete(resource=SERVICES, name="di-rehearsal-000000")
    ]
    assert [*phases(found)] == ["Starting", "Running", "Succeeded"]


def test_a_large_jobs_node_lists_are_created_and_removed() -> None:
    found = script(150)
    writes = [write for step in (*found.start, *found.end) for write in step.objects]
    made, removed = (write for write in writes if write.resource == CONFIGMAPS)
    assert (type(made), type(removed)) == (Create, Delete)
    assert [*phases(found)] == ["Starting", "Running", "Succeeded"]
