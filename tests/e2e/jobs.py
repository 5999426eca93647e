"""DIJobs for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from di_api.names import API_VERSION, COORDINATED_VERSIONS, DI_CONTAINER, GROUP, KIND


def task(
    kind: str,
    *,
    image: str,
    program: str,
    replicas: int = 1,
    name: str | None = None,
    grace_seconds: int = 1,
    **fields: Any,
) -> dict[str, Any]:
    """A task whose pods run a Python program.

    Args:
        kind: learner, collector, evaluator or none.
        image: an image with Python.
        program: the program's text.
        replicas: how many pods.
        name: the task's name, if not its type.
        grace_seconds: time for the pod to end; Python as process 1 does not end on SIGTERM.
        fields: further fields of the task, such as minReplicas.
    """
    return {
        "type": kind,
        **({"name": name} if name else {}),
        "replicas": replicas,
        **fields,
        "template": template(image=image, program=program, grace_seconds=grace_seconds),
    }


def template(*, image: str, program: str, grace_seconds: int = 1) -> dict[str, Any]:
    """A template of pods that run a Python program."""
    return {
        "spec": {
            "terminationGracePeriodSeconds": grace_seconds,
            "containers": [
                {
                    "name": DI_CONTAINER,
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["python3", "-u", "-c", program],
                    "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
                }
            ],
        }
    }


def job(name: str, *, namespace: str, tasks: Sequence[Mapping[str, Any]], **spec: Any) -> Any:
    """A DIJob; `spec` has the fields of the spec besides the tasks."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {**spec, "tasks": list(tasks)},
    }


def coordinated(
    name: str,
    *,
    namespace: str,
    templates: Mapping[str, Mapping[str, Any]],
    version: str = COORDINATED_VERSIONS[0],
    **spec: Any,
) -> Any:
    """A DIJob with a coordinator, in one of the versions that know no other; templates by role."""
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {**spec, **{role: {"template": found} for role, found in templates.items()}},
    }


def older_job(name: str, *, namespace: str, image: str) -> Any:
    """A DIJob of the oldest version: a coordinator that ends after a second."""
    templates = {"coordinator": template(image=image, program=sleep(1))}
    return coordinated(name, namespace=namespace, templates=templates)


def sleep(seconds: float) -> str:
    """A program that does nothing for a while and succeeds."""
    return f"import time; time.sleep({seconds})"
