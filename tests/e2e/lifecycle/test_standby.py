"""Pods that stand by on a real node: one works in the place of a member that failed."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from di_cluster.errors import CommandFailed
from tests.e2e.examples import job_of
from tests.e2e.kubectl import Kubectl
from tests.waiting import wait_until

FIRST, SECOND, BY, NEXT = (f"warm-learner-{each}" for each in ("0", "1", "standby-0", "standby-1"))


def said(kubectl: Kubectl, namespace: str, pod: str) -> list[dict[str, Any]]:
    """The worlds that a pod has met in."""
    return [json.loads(line) for line in kubectl.logs(pod, namespace=namespace).splitlines()]


def is_ready(kubectl: Kubectl, namespace: str, pod: str) -> bool:
    conditions = kubectl.get("pod", pod, namespace=namespace)["status"]["conditions"]
    return {"Ready": "True"}.items() <= {c["type"]: c["status"] for c in conditions}.items()


def test_one_that_stands_by_takes_the_place_of_a_member_that_failed(
    kubectl: Kubectl, namespace: str, python_image: str
) -> None:
    body = job_of("standby", image=python_image, namespace=namespace)
    (container,) = body["spec"]["tasks"][0]["template"]["spec"]["containers"]
    container["env"] = [{"name": "LOADS_FOR", "value": "1"}]
    kubectl.apply(body)

    def first_world() -> int:
        assert is_ready(kubectl, namespace, BY)
        last = [said(kubectl, namespace, name)[-1] for name in (FIRST, SECOND)]
        assert [each["met"] for each in last] == 2 * [[FIRST, SECOND]], last
        return int(last[0]["generation"])

    generation = wait_until(first_world, what="two members, and one beside them")
    assert said(kubectl, namespace, BY) == []
    with suppress(CommandFailed):
        kubectl("--namespace", namespace, "exec", SECOND, "--", "sh", "-c", "kill -INT 1")

    def next_world() -> bool:
        last = [said(kubectl, namespace, name)[-1] for name in (FIRST, BY)]
        assert [each["rank"] for each in last] == [0, 1], last
        assert [each["met"] for each in last] == 2 * [[FIRST, BY]], last
        assert all(each["generation"] > generation for each in last), last
        return True

    wait_until(next_world, what="a world with the one that stood by")

    def is_warm_again() -> bool:
        pods = kubectl.items("pods", namespace=namespace)
        assert {pod["metadata"]["name"] for pod in pods} == {FIRST, BY, NEXT}
        return is_ready(kubectl, namespace, NEXT)

    wait_until(is_warm_again, what="another one that stands by")
    status = kubectl.get("dijob", "warm", namespace=namespace)["status"]
    assert status["standIns"] == {"learner": {"1": BY}}
    assert (status["phase"], status["restarts"], status["reschedules"]) == ("Running", 1, 0)
