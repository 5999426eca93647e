"""Warnings about what the operator overrules in templates."""

from __future__ import annotations

from typing import Any

import pytest

from di_webhook.admission import validate
from di_webhook.overruled import overruled
from tests.unit.webhook.reviews import job, review

POD = "spec.tasks[0].template.spec"


def warnings(new: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    operation = "CREATE" if old is None else "UPDATE"
    response = validate(review(new, old=old, operation=operation)).body["response"]
    assert response["allowed"], response
    found: list[str] = response.get("warnings", [])
    return found


def with_pods(fields: dict[str, Any], **spec: Any) -> dict[str, Any]:
    new = job(**spec)
    new["spec"]["tasks"][0]["template"]["spec"] |= fields
    return new


@pytest.mark.proves("dijob.md#what-the-operator-overrules/*")
@pytest.mark.parametrize(
    ("fields", "about"),
    [
        ({"restartPolicy": "Always"}, "restartPolicy: Always is overruled"),
        ({"restartPolicy": "OnFailure"}, "restartPolicy: OnFailure is overruled"),
        ({"hostname": "a"}, "hostname: a is overruled"),
        ({"subdomain": "b"}, "subdomain: b is overruled"),
        ({"hostNetwork": True}, "dnsPolicy: is set to ClusterFirstWithHostNet"),
    ],
)
def test_what_the_operator_overrules_is_a_warning(fields: dict[str, Any], about: str) -> None:
    new = with_pods(fields)
    (warning,) = warnings(new)
    assert warning.startswith(f"{POD}.{about}")
    assert warnings({**new, "spec": {**new["spec"], "backoffLimit": 9}}, new) == []


@pytest.mark.proves("dijob.md#what-the-operator-overrules/nodename")
def test_a_node_that_the_allocator_overrules_is_a_warning() -> None:
    fields = {"nodeName": "node-1"}
    (warning,) = warnings(with_pods(fields, preemptible=True))
    assert warning.startswith(f"{POD}.nodeName: node-1 is overruled")
    assert warnings(with_pods(fields)) == []


def test_what_the_operator_keeps_is_no_warning() -> None:
    kept = {"restartPolicy": "Never", "hostNetwork": True, "dnsPolicy": "Default"}
    assert warnings(with_pods(kept)) == []
    in_place = {"rules": [{"onExitCodes": {"operator": "In", "values": [3]}}]}
    in_place["rules"][0]["action"] = "RestartInPlace"  # type: ignore[assignment]
    assert warnings(with_pods({"restartPolicy": "OnFailure"}, failurePolicy=in_place)) == []


def test_warnings_of_any_job_are_few() -> None:
    template = {"spec": {"hostname": "x" * 1000, "subdomain": [1], "restartPolicy": "Always"}}
    tasks = [{"type": "none", "name": f"t{index}", "template": template} for index in range(64)]
    found = overruled({"spec": {"tasks": [1, *tasks]}}, None)
    assert len(found) == 16
    assert max(map(len, found)) < 250
