"""`tasks[].drain`: how a pod is asked to end its work."""

from __future__ import annotations

import pytest

from di_api.spec import Drain
from di_api.validation import load_leniently, validate_job
from tests.unit.api.jobs import Job, job, task
from tests.unit.api.refusals import edited, refused

DRAINED = job(task(drain={"path": "/drain", "port": 8000}))
HOOK = "containers=[{name: di-container, lifecycle: {preStop: {exec: {command: [a]}}}}]"
ONE_WAY = "spec.tasks[0].drain: an object: exactly one of path and command must be given"
ONE_HOOK = "lifecycle.preStop: an object: is how drain asks; take one of the two away"


@pytest.mark.parametrize(
    ("message", "bad"),
    refused(
        DRAINED,
        f"""
(tasks[0].drain={{timeoutSeconds: 5}}) {ONE_WAY}
(tasks[0].drain={{command: []}}) {ONE_WAY}
(tasks[0].drain.command=[drain]) {ONE_WAY}
spec.tasks[0].drain.port: is required with path
(tasks[0].drain={{command: [drain]}}) spec.tasks[0].drain.port: 80: goes with path
spec.tasks[0].drain.path: "drain": must begin with a slash
spec.tasks[0].drain.port: 0: must be 1 or more
spec.tasks[0].drain.timeoutSeconds: 0: must be 1 or more
spec.tasks[0].drain.timeoutSeconds: 3601: must be 3600 or less
spec.tasks[0].drain: "/drain": must be an object
(tasks[0].template.spec.{HOOK}) spec.tasks[0].template.spec.containers[0].{ONE_HOOK}
(tasks[0].podsPerReplica=2; tasks[0].leaderTemplatePatch.spec.{HOOK})
  spec.tasks[0].leaderTemplatePatch.spec.containers[0].{ONE_HOOK}
""",
    ),
)
def test_a_bad_drain_is_refused(message: str, bad: Job) -> None:
    assert [str(error) for error in validate_job(bad)] == [message]


@pytest.mark.parametrize(
    "good",
    [
        DRAINED,
        edited(DRAINED, "tasks[0].drain.port=http"),
        edited(DRAINED, "tasks[0].drain={command: [drain, --all], timeoutSeconds: 3600}"),
        edited(
            DRAINED,
            "tasks[0].template.spec.containers=[{name: proxy, lifecycle: {preStop: {sleep: "
            "{seconds: 1}}}}, {name: di-container}]",
        ),
        edited(job(), f"tasks[0].template.spec.{HOOK}"),
    ],
    ids=["a path", "a port's name", "a command", "a hook of a sidecar", "a hook without a drain"],
)
def test_a_good_drain_is_accepted(good: Job) -> None:
    assert validate_job(good) == []


def test_a_drain_has_30_seconds_by_default() -> None:
    (read,) = load_leniently(DRAINED["spec"]).tasks
    assert read.drain == Drain(path="/drain", port=8000, timeout_seconds=30)
