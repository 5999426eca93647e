"""What is run: so many jobs of so many pods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from di_api.names import API_VERSION, DI_CONTAINER, KIND, LABEL_JOB
from di_kube.resources import DIJOBS, Resource
from tests.fakes.kubelet import NODE, RUN_FOR

Object = dict[str, Any]

# Names of one length: every object of every job is as large as that of another.
_NAME = "bench-{:06d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """`jobs` jobs of `replicas` pods, each of which runs for `run_for` seconds (None: for ever).

    `window` jobs at most are unfinished at any time; None submits all at once.
    """

    jobs: int
    replicas: int
    run_for: float | None = 1.0
    window: int | None = None

    @property
    def title(self) -> str:
        return f"{self.jobs:,} x {self.replicas:,}"

    @property
    def pods(self) -> int:
        return self.jobs * self.replicas

    def names(self) -> list[str]:
        return [_NAME.format(number) for number in range(self.jobs)]


def template(container: str, run_for: float | None) -> Object:
    """A template of pods with one container of that name.

    Pods are bound by it: kube-scheduler would bind 55 a second by its own rate limit, or 300 where
    that is raised, and it is not what is measured here.
    """
    annotations = {} if run_for is None else {RUN_FOR: str(run_for)}
    return {
        "metadata": {"annotations": annotations},
        "spec": {
            "nodeName": NODE,
            "containers": [
                {
                    "name": container,
                    "image": "registry.example/train:1",
                    "command": ["python", "-m", "train"],
                    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                }
            ],
        },
    }


def job(name: str, replicas: int, *, run_for: float | None = 1.0) -> Object:
    """A DIJob of one task."""
    task = {
        "name": "work",
        "type": "none",
        "replicas": replicas,
        "template": template(DI_CONTAINER, run_for),
    }
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name},
        "spec": {"tasks": [task]},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class JobType:
    """Jobs of one resource.

    Attributes:
        label: of pods: the name of their job.
        manifest: the object for a name, a number of pods and the seconds for which they run.
        phase: what a job shows of itself; None if nothing.
    """

    resource: Resource
    label: str
    manifest: Callable[[str, int, float | None], Object]
    phase: Callable[[Object], str | None]


def _phase(job: Object) -> str | None:
    phase: str | None = (job.get("status") or {}).get("phase")
    return phase


DIJOB: Final = JobType(
    resource=DIJOBS,
    label=LABEL_JOB,
    manifest=lambda name, replicas, run_for: job(name, replicas, run_for=run_for),
    phase=_phase,
)
