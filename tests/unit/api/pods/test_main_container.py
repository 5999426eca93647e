"""How a replica stands, by the statuses of its pod's containers."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.pods.main_container import (
    ended_beside_main,
    has_begun,
    main_end,
    main_first,
    phase_of,
    was_rejected,
)

Object = dict[str, Any]
TIMES = {"startedAt": "2026-01-01T12:00:00Z", "finishedAt": "2026-01-01T12:01:00Z"}
RUNS: Object = {"running": {"startedAt": "2026-01-01T12:00:00Z"}}
NEVER: Object = {"restartPolicy": "Never"}
NEVER_RAN: Object = {"terminated": {"exitCode": 137, "startedAt": None, "finishedAt": None}}
DISRUPTED: Object = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}


def ended(code: int) -> Object:
    return {"terminated": {"exitCode": code, **TIMES}}


def pod(
    phase: str, main: Object, side: Object, *, restart: str = "Never", **more: Any
) -> dict[str, Any]:
    """A pod whose sidecar is first in its spec and its status."""
    own = more.pop("own", {})
    return {
        "spec": {
            "restartPolicy": restart,
            "containers": [{"name": "a-sidecar"}, {"name": "di-container", **own}],
        },
        "status": {
            "phase": phase,
            "containerStatuses": [
                {"name": "a-sidecar", "state": side},
                {"name": "di-container", "state": main},
            ],
            **more,
        },
    }


@pytest.mark.proves("lifecycle.md#which-container-decides")
@pytest.mark.parametrize(
    ("found", "phase"),
    [
        (pod("Running", RUNS, RUNS), "Running"),
        (pod("Running", ended(3), RUNS), "Failed"),
        (pod("Running", ended(0), RUNS), "Succeeded"),
        (pod("Running", ended(3), {"waiting": {}}), "Failed"),
        (pod("Running", RUNS, ended(137)), "Running"),
        # All have ended: the kubelet's own phase, and perhaps a reason, is still to come.
        (pod("Running", ended(3), ended(0)), "Running"),
        (pod("Failed", ended(3), ended(0)), "Failed"),
        (pod("Failed", ended(0), ended(137)), "Succeeded"),
        (pod("Failed", ended(0), ended(137), reason="Evicted"), "Failed"),
        (pod("Failed", ended(0), ended(137), **DISRUPTED), "Failed"),
        (pod("Succeeded", ended(0), ended(0)), "Succeeded"),
        # The kubelet starts it again.
        (pod("Running", ended(3), RUNS, restart="OnFailure"), "Running"),
        (pod("Running", ended(0), RUNS, restart="OnFailure"), "Succeeded"),
        (pod("Running", ended(0), RUNS, restart="Always"), "Running"),
        (
            pod("Running", ended(3), RUNS, restart="Always", own={"restartPolicy": "Never"}),
            "Failed",
        ),
        (pod("Running", ended(3), RUNS, own={"restartPolicyRules": [{}]}), "Running"),
        ({"status": {}}, "Pending"),
        ({"status": {"phase": "Failed"}}, "Failed"),
    ],
)
def test_the_main_container_decides_the_phase(found: Object, phase: str) -> None:
    assert phase_of(found) == phase


def test_without_a_di_container_the_first_of_the_spec_decides() -> None:
    found = pod("Running", RUNS, ended(3))
    found["spec"]["containers"][1]["name"] = "z"
    found["status"]["containerStatuses"][1]["name"] = "z"
    found["status"]["containerStatuses"].reverse()
    assert phase_of(found) == "Failed"
    assert main_end(found) == ended(3)["terminated"]


@pytest.mark.parametrize(
    ("status", "began"),
    [
        ({}, False),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}, False),
        ({"containerStatuses": [{"state": NEVER_RAN}]}, False),
        ({"containerStatuses": [{"state": ended(1)}]}, True),
        ({"containerStatuses": [{"state": RUNS}]}, True),
        ({"containerStatuses": [{"state": {"waiting": {}}, "restartCount": 1}]}, True),
        ({"containerStatuses": [{"state": {}, "lastState": ended(1)}]}, True),
        ({"initContainerStatuses": [{"state": ended(1)}]}, True),
    ],
    ids=str,
)
def test_a_pod_that_fails_before_a_container_ran_was_rejected(
    status: Object, *, began: bool
) -> None:
    assert has_begun({"status": status}) is began
    assert was_rejected({"status": {"phase": "Failed", **status}}) is not began
    assert not was_rejected({"status": {"phase": "Pending", **status}})


@pytest.mark.parametrize(
    ("found", "name"),
    [
        (pod("Running", RUNS, ended(0)), "a-sidecar"),
        (pod("Running", RUNS, ended(1), restart="OnFailure"), None),
        (pod("Running", ended(0), RUNS), None),
        (pod("Failed", ended(1), ended(1)), None),
        (pod("Running", RUNS, RUNS), None),
    ],
)
def test_a_container_that_ended_beside_the_main_one_is_found(
    found: Object, name: str | None
) -> None:
    beside = ended_beside_main(found)
    assert (beside and beside[0]["name"]) == name


def test_the_main_container_is_read_first() -> None:
    found = pod("Running", RUNS, RUNS, initContainerStatuses=[{"name": "i"}])
    assert [each["name"] for each in main_first(found)] == ["di-container", "i", "a-sidecar"]
