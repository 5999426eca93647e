"""A pod in one word, and whose log explains it: the main container goes first."""

from __future__ import annotations

from typing import Any

import pytest

from di_cli.logs.read import _failed_container
from di_cli.views.pods import state_of

RUNS: dict[str, Any] = {"running": {}}


def ended(code: int, reason: str) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason}}


def pod(main: dict[str, Any], sidecar: dict[str, Any]) -> dict[str, Any]:
    names = ("a-sidecar", "di-container")
    return {
        "metadata": {"name": "x-learner-0"},
        "spec": {"restartPolicy": "Never", "containers": [{"name": name} for name in names]},
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {"name": name, "state": state}
                for name, state in zip(names, (sidecar, main), strict=True)
            ],
        },
    }


@pytest.mark.proves("lifecycle.md#which-container-decides")
@pytest.mark.parametrize(
    ("found", "state", "container"),
    [
        (pod(ended(0, "Completed"), RUNS), "Succeeded", ""),
        (pod(ended(3, "Error"), RUNS), "Error", "di-container"),
        (pod(ended(3, "Error"), ended(137, "OOMKilled")), "Error", "di-container"),
        (pod(RUNS, ended(137, "OOMKilled")), "NotReady", "a-sidecar"),
        (pod(RUNS, {"waiting": {"reason": "ErrImagePull"}}), "ErrImagePull", ""),
    ],
)
def test_the_state_of_a_pod_is_that_of_its_main_container(
    found: dict[str, Any], state: str, container: str
) -> None:
    assert state_of(found) == state
    assert _failed_container(found) == container
