"""Rules about drains: exactly one way to ask, and no other hook in its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from di_api.field_error import ABSENT, FieldError, items, mapping
from di_api.names import DI_CONTAINER


def wrong_drain(path: str, task: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the error for no way to ask, two of them, or an invalid path."""
    drain, where = task.get("drain"), f"{path}.drain"
    if not isinstance(drain, Mapping):
        return
    request, port = drain.get("path"), drain.get("port")
    if (request is not None) == bool(drain.get("command")):
        yield FieldError(where, drain, "exactly one of path and command must be given")
    elif (request is None) != (port is None):
        message = "goes with path" if request is None else "is required with path"
        yield FieldError(f"{where}.port", ABSENT if port is None else port, message)
    if isinstance(request, str) and not request.startswith("/"):
        yield FieldError(f"{where}.path", request, "must begin with a slash")


def hook_in_the_way(path: str, task: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the error if the container that is asked has a hook of its own in the template."""
    if not isinstance(task.get("drain"), Mapping):
        return
    pod = mapping(mapping(task.get("template")).get("spec"))
    containers = [mapping(each) for each in items(pod.get("containers"))]
    named = (i for i, each in enumerate(containers) if each.get("name") == DI_CONTAINER)
    for index in (next(named, 0),) if containers else ():
        hook = mapping(containers[index].get("lifecycle")).get("preStop")
        if hook is not None:
            where = f"{path}.template.spec.containers[{index}].lifecycle.preStop"
            yield FieldError(where, hook, "is how drain asks; take one of the two away")
