"""The init container that tells how fast a node is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from di_api import names
from di_api.spec import Task

Object = Mapping[str, Any]


def check_container(task: Task) -> dict[str, Any] | None:
    """Return the container, which goes before all others; None: the task has no check.

    It has the resources and the rights of the first container: a pod asks for no more with it, and
    keeps its class of service.
    """
    containers = (task.template.get("spec") or {}).get("containers") or ()
    if task.node_check is None or not containers:
        return None
    first: Object = containers[0]
    same = ("image", "imagePullPolicy", "resources", "securityContext")
    container = {"name": names.NODE_CHECK, **{key: first[key] for key in same if key in first}}
    if task.node_check.image:
        container["image"] = task.node_check.image
    command = list(task.node_check.command)
    return {**container, "command": command or ["python3", "-c", _matrix_product()]}


@cache
def _matrix_product() -> str:
    return (resources.files("di_operator.builders") / "matrix_product.py").read_text("utf-8")
