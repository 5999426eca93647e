"""The init container that measures the speed of a node."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from di_api import names
from di_api.spec import Task

Object = Mapping[str, Any]


def check_container(task: Task, *, is_late: bool = False) -> dict[str, Any] | None:
    """Return the check's container, which goes before all others; None if the task has no check.

    It has the resources and permissions of the first container, so the pod requests no more and
    keeps its QoS class. A late pod (`is_late`) exchanges no data, because the other pods have
    finished their checks.
    """
    containers = (task.template.get("spec") or {}).get("containers") or ()
    check = task.node_check
    if check is None or not containers:
        return None
    first: Object = containers[0]
    same = ("image", "imagePullPolicy", "resources", "securityContext")
    container = {"name": names.NODE_CHECK, **{key: first[key] for key in same if key in first}}
    if check.image:
        container["image"] = check.image
    wait = 0 if is_late else check.wait_seconds
    return {
        **container,
        "command": list(check.command) or ["python3", "-c", _default_check()],
        "env": [
            {"name": names.ENV_NODE_NAME, "valueFrom": _NODE_NAME},
            {"name": names.ENV_NODE_CHECK_WAIT, "value": str(wait)},
        ],
    }


_NODE_NAME: Object = {"fieldRef": {"fieldPath": "spec.nodeName"}}


@cache
def _default_check() -> str:
    # Read as text and never imported: it runs in the image of the task.
    return (resources.files("di_node_check") / "program.py").read_text("utf-8")
