"""`tasks[].drain`: what is taken, and what is refused with its path and a reason."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.spec import Drain
from di_api.validation import load_leniently, validate_job
from tests.unit.api.jobs import job, task, template

HTTP = {"path": "/drain", "port": 8000}
OWN = template()
OWN["spec"]["containers"][0]["lifecycle"] = {"preStop": {"exec": {"command": ["a"]}}}
ASIDE = template()
ASIDE["spec"]["containers"].insert(
    0, {"name": "proxy", "image": "a", "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}
)
PATCH = {
    "spec": {
        "containers": [
            {"name": "di-container", "lifecycle": OWN["spec"]["containers"][0]["lifecycle"]}
        ]
    }
}

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no way of asking": (
        {"drain": {"timeoutSeconds": 5}},
        "spec.tasks[0].drain: an object: exactly one of path and command must be given",
    ),
    "an empty command": (
        {"drain": {"command": []}},
        "spec.tasks[0].drain: an object: exactly one of path and command must be given",
    ),
    "two ways of asking": (
        {"drain": {**HTTP, "command": ["drain"]}},
        "spec.tasks[0].drain: an object: exactly one of path and command must be given",
    ),
    "a path without a port": (
        {"drain": {"path": "/drain"}},
        "spec.tasks[0].drain.port: is required with path",
    ),
    "a port of a command": (
        {"drain": {"command": ["drain"], "port": 80}},
        "spec.tasks[0].drain.port: 80: goes with path",
    ),
    "a path that does not begin at the root": (
        {"drain": {**HTTP, "path": "drain"}},
        'spec.tasks[0].drain.path: "drain": must begin with a slash',
    ),
    "a port that there is not": (
        {"drain": {**HTTP, "port": 0}},
        "spec.tasks[0].drain.port: 0: must be 1 or more",
    ),
    "no time": (
        {"drain": {**HTTP, "timeoutSeconds": 0}},
        "spec.tasks[0].drain.timeoutSeconds: 0: must be 1 or more",
    ),
    "more than an hour": (
        {"drain": {**HTTP, "timeoutSeconds": 3601}},
        "spec.tasks[0].drain.timeoutSeconds: 3601: must be 3600 or less",
    ),
    "a drain that is no object": (
        {"drain": "/drain"},
        'spec.tasks[0].drain: "/drain": must be an object',
    ),
    "a hook that the template has": (
        {"drain": HTTP, "template": OWN},
        "spec.tasks[0].template.spec.containers[0].lifecycle.preStop: an object: is how drain "
        "asks; take one of the two away",
    ),
    "a hook that a leader has": (
        {"drain": HTTP, "podsPerReplica": 2, "leaderTemplatePatch": PATCH},
        "spec.tasks[0].leaderTemplatePatch.spec.containers[0].lifecycle.preStop: an object: is how "
        "drain asks; take one of the two away",
    ),
}
GOOD: dict[str, dict[str, Any]] = {
    "a path": {"drain": HTTP},
    "a port by its name": {"drain": {**HTTP, "port": "http"}},
    "a command": {"drain": {"command": ["drain", "--all"], "timeoutSeconds": 3600}},
    "a hook of another container": {"drain": HTTP, "template": ASIDE},
    "a hook without a drain": {"template": OWN},
}


@pytest.mark.parametrize("name", BAD)
def test_it_is_refused(name: str) -> None:
    fields, message = BAD[name]
    assert [str(error) for error in validate_job(job(task(**fields)))] == [message]


@pytest.mark.parametrize("name", GOOD)
def test_it_is_taken(name: str) -> None:
    assert validate_job(job(task(**GOOD[name]))) == []


def test_it_has_half_a_minute_unless_it_says_so() -> None:
    (read,) = load_leniently(job(task(drain=HTTP))["spec"]).tasks
    assert read.drain == Drain(path="/drain", port=8000, timeout_seconds=30)
