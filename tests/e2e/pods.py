"""The pods of a job as a test sees them, and pods that do what a test tells them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Self

from di_api.names import (
    ANNOTATION_RANK,
    DI_CONTAINER,
    ENV_NODES,
    LABEL_JOB,
)
from tests.e2e.kubectl import Kubectl, Object
from tests.waiting import wait_until

OBEY = """
import os, pathlib, sys, time
order = pathlib.Path("/tmp/order")
while not (order.exists() and order.read_text().endswith("\\n")):
    time.sleep(0.05)
# The shell that gave the order would be killed with process 1.
while any(name.isdigit() and name != "1" for name in os.listdir("/proc")):
    time.sleep(0.05)
print("last words", flush=True)
sys.exit(int(order.read_text()))
"""
"""Runs until it is told by `tell_to_exit` with which code to end."""

ASK = """
import json, os, ssl, urllib.error, urllib.request
trust = ssl.create_default_context(cafile=os.environ["DI_SERVER_CA_FILE"])
job = os.environ["DI_SERVER_URL"] + "/v2alpha1/job/" + os.environ["DI_JOB_ID"]
request = urllib.request.Request(job + {path!r}, method="POST", data={body!r})
try:
    with urllib.request.urlopen(request, timeout=60, context=trust) as answer:
        print(answer.status)
except urllib.error.HTTPError as error:
    print(error.code if error.headers["Retry-After"] else -error.code)
"""
"""Tells the status of di-server's answer; negative if an error does not say when to ask again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod of a job."""

    name: str
    uid: str
    phase: str
    rank: int
    address: str
    environment: dict[str, str]
    is_leaving: bool

    @classmethod
    def of(cls, body: Object) -> Self:
        """Read a pod's body."""
        containers = {c["name"]: c for c in body["spec"]["containers"]}
        environment = containers[DI_CONTAINER].get("env", [])
        return cls(
            name=body["metadata"]["name"],
            uid=body["metadata"]["uid"],
            phase=body["status"]["phase"],
            rank=int(body["metadata"]["annotations"][ANNOTATION_RANK]),
            address=body["status"].get("podIP", ""),
            environment={entry["name"]: entry.get("value", "") for entry in environment},
            is_leaving="deletionTimestamp" in body["metadata"],
        )

    @property
    def nodes(self) -> list[str]:
        """The addresses of all pods by rank, as this pod was told."""
        return self.environment[ENV_NODES].split(",")


def pods_of(kubectl: Kubectl, job: str, *, namespace: str) -> dict[str, Pod]:
    """The job's pods by name, those that are ending included."""
    found = kubectl.items("pods", f"--selector={LABEL_JOB}={job}", namespace=namespace)
    return {pod.name: pod for pod in map(Pod.of, found)}


def wait_for_phase(kubectl: Kubectl, job: str, phase: str, *, namespace: str) -> Object:
    """Wait until the job is in a phase and nothing about its pods is left to do; returns it."""

    def reached() -> Object | None:
        found = kubectl.get("dijob", job, namespace=namespace)
        assert found.get("status", {}).get("phase") == phase, found.get("status")
        return found

    return wait_until(reached, what=f"{job} is {phase}") or {}


def wait_for_pods(kubectl: Kubectl, job: str, *names: str, namespace: str) -> dict[str, Pod]:
    """Wait until the job is Running with exactly these pods, all ready; returns them."""

    def settled() -> dict[str, Pod] | None:
        status = kubectl.get("dijob", job, namespace=namespace).get("status", {})
        pods = pods_of(kubectl, job, namespace=namespace)
        assert (status.get("phase"), status.get("replicas")) == ("Running", len(names)), status
        assert set(pods) == set(names)
        return pods if not any(pod.is_leaving for pod in pods.values()) else None

    return wait_until(settled, what=f"{job} runs {', '.join(names)}") or {}


def tell_to_exit(kubectl: Kubectl, pod: str, code: int, *, namespace: str) -> None:
    """Let a pod that obeys end with an exit code."""
    kubectl(
        *("--namespace", namespace, "exec", pod, "--"),
        *("sh", "-c", f"echo {code} > /tmp/order"),
    )


def run_in_pod(kubectl: Kubectl, pod: str, program: str, *, namespace: str) -> Any:
    """Run a Python program beside the one of the pod; returns the JSON of its last line."""
    command = ("exec", pod, "--", "python3", "-c", program)
    said = kubectl("--namespace", namespace, *command, seconds=120)
    return json.loads(said.splitlines()[-1])


def condition(job: Object, kind: str) -> Object:
    """A condition of the job's status."""
    conditions: dict[str, Object] = {c["type"]: c for c in job["status"]["conditions"]}
    return conditions[kind]


def events_of(kubectl: Kubectl, job: str, *, namespace: str) -> list[str]:
    """Reason and message of each event on the job."""
    found = kubectl.items(
        "events",
        f"--field-selector=involvedObject.kind=DIJob,involvedObject.name={job}",
        namespace=namespace,
    )
    return [f"{event['reason']}: {event['message']}" for event in found]


def wait_for_event(kubectl: Kubectl, job: str, text: str, *, namespace: str) -> list[str]:
    """The events that have this text, once there is one: they are sent after what they tell."""

    def told() -> list[str]:
        events = events_of(kubectl, job, namespace=namespace)
        found = [event for event in events if text in event]
        assert found, events
        return found

    return wait_until(told, what=f"an event on {job}: {text}")
