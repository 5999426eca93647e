"""What is run: so many jobs of so many pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from di_api.names import API_VERSION, DI_CONTAINER, KIND
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


def job(name: str, replicas: int, *, run_for: float | None = 1.0) -> Object:
    """A job of one task.

    Its pods are bound by the template: kube-scheduler would bind 55 a second by its own rate
    limit, or 300 where that is raised, and it is not what is measured here.
    """
    annotations = {} if run_for is None else {RUN_FOR: str(run_for)}
    template = {
        "metadata": {"annotations": annotations},
        "spec": {
            "nodeName": NODE,
            "containers": [
                {
                    "name": DI_CONTAINER,
                    "image": "registry.example/train:1",
                    "command": ["python", "-m", "train"],
                    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                }
            ],
        },
    }
    task = {"name": "work", "type": "none", "replicas": replicas, "template": template}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name},
        "spec": {"tasks": [task]},
    }
