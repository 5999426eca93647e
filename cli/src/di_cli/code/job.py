"""The DIJob of a program, made of the options of `di submit`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from di_api.names import API_VERSION, DI_CONTAINER, GPU_RESOURCE, KIND

DEFAULT_IMAGE: Final = "python:3.13-slim"
TRACKING: Final = "di_orchestrator.tracking"
"""Module that runs a program and reports what it logs to experiment trackers."""

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The options that describe a job.

    Attributes:
        entry: file that is started, below the directory of the code.
        arguments: of the program.
        counts: replicas by task type; a type with 0 has no task.
        gpus: of each learner.
        is_tracked: whether the numbers that the program logs to experiment trackers are reported.
        image: of all tasks; None: a template has it, or `with_default_image` adds it.
        artifacts: `CLAIM`, or `CLAIM:PATH`, for the artifacts of all pods; None: there are none.
    """

    name: str
    entry: str
    arguments: Sequence[str]
    counts: Mapping[str, int]
    gpus: int = 0
    is_tracked: bool = False
    image: str | None = DEFAULT_IMAGE
    artifacts: str | None = None


def job_of(wanted: Wanted, code: Object) -> Object:
    """Return the job; all its pods start the same program."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": wanted.name},
        "spec": {
            "code": code,
            **_artifacts(wanted.artifacts),
            "tasks": [
                {
                    "type": kind,
                    "replicas": count,
                    "template": {"spec": _pod(wanted, kind)},
                }
                for kind, count in wanted.counts.items()
                if count
            ],
        },
    }


def _artifacts(words: str | None) -> Object:
    if words is None:
        return {}
    from di_api.spec.artifact import USUAL  # noqa: PLC0415  a push need not import the whole spec

    claim, _, path = words.partition(":")
    item = {**USUAL, **({"path": path} if path else {}), "persistentVolumeClaim": claim}
    return {"artifacts": [item]}


def with_default_image(job: Object) -> Object:
    """Return the job with the default image in each main container without one."""
    tasks = []
    for task in job["spec"]["tasks"]:
        pod = task["template"]["spec"]
        containers = [
            {**each, "image": DEFAULT_IMAGE}
            if each.get("name") == DI_CONTAINER and not each.get("image")
            else each
            for each in pod["containers"]
        ]
        tasks.append(
            {**task, "template": {**task["template"], "spec": {**pod, "containers": containers}}}
        )
    return {**job, "spec": {**job["spec"], "tasks": tasks}}


def _pod(wanted: Wanted, kind: str) -> Object:
    # The kernel ignores SIGTERM for process 1 without a handler, and such a program would take its
    # whole grace period to end at each push. Here process 1 is the pod's own.
    return {"shareProcessNamespace": True, "containers": [_container(wanted, kind)]}


def _container(wanted: Wanted, kind: str) -> Object:
    is_python = wanted.entry.endswith(".py")
    tracked = ["-m", TRACKING] if wanted.is_tracked else []
    start = ["python3", *tracked, wanted.entry] if is_python else [f"./{wanted.entry}"]
    gpus = wanted.gpus if kind == "learner" else 0
    return {
        "name": DI_CONTAINER,
        **({"image": wanted.image} if wanted.image else {}),
        "command": [*start, *wanted.arguments],
        # Lines appear in the logs as they are printed.
        "env": [{"name": "PYTHONUNBUFFERED", "value": "1"}],
        **({"resources": {"limits": {GPU_RESOURCE: str(gpus)}}} if gpus else {}),
    }
