"""The environment and command of a container's process. Pure except for the files of volumes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

Object = Mapping[str, Any]
_REFERENCE: Final = re.compile(r"\$(\$|\((?P<name>[^()$]+)\))")
_SUBSCRIPT: Final = re.compile(r"(?P<path>metadata\.(?:labels|annotations))\['(?P<key>[^']+)'\]")
_HIDDEN: Final = ("DI_", "KUBERNETES_")
"""Prefixes of variables that a pod does not inherit from the user's environment."""


class Missing(Exception):
    """The source of a value does not exist; the message names it."""


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the user's variables without those of a job (`DI_*`, `KUBERNETES_*`)."""
    return {key: value for key, value in environ.items() if not key.startswith(_HIDDEN)}


def variables(
    container: Object,
    pod: Object,
    *,
    replaced: Callable[[str], str],
    read_key: Callable[[str, str, str], str | None],
) -> dict[str, str]:
    """Return the variables that a container defines, in order.

    Args:
        replaced: inserts the names and paths of this machine into a text.
        read_key: returns the value in a ConfigMap or Secret, by kind, name and key; None: there is
            none.

    Raises:
        Missing: a reference has no target and is not optional.
    """
    found: dict[str, str] = {}
    for one in container.get("env") or ():
        value = one.get("value")
        if value is None:
            value = _from(one.get("valueFrom") or {}, pod, read_key)
        if value is not None:
            found[one["name"]] = replaced(expanded(value, found))
    return found


def expanded(text: str, known: Mapping[str, str]) -> str:
    """Expand `$(NAME)` as a kubelet does: `$$` is a dollar, unknown names are unchanged."""

    def value(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        return known.get(match["name"], match[0])

    return _REFERENCE.sub(value, text)


def words(
    texts: Sequence[str], known: Mapping[str, str], replaced: Callable[[str], str]
) -> list[str]:
    """Return a command or its arguments with expanded variables."""
    return [replaced(expanded(text, known)) for text in texts]


def field_value(pod: Object, path: str) -> str:
    """Return the value of a pod's field for its variables and files.

    Raises:
        Missing: the field cannot be referenced.
    """
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    if subscript := _SUBSCRIPT.fullmatch(path):
        part = subscript["path"].partition(".")[2]
        return str((metadata.get(part) or {}).get(subscript["key"], ""))
    fields = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName") or "default",
        "status.hostIP": status.get("hostIP", ""),
        "status.podIP": status.get("podIP", ""),
        "status.podIPs": status.get("podIP", ""),
    }
    if path not in fields:
        raise Missing(f"there is no field {path}")
    return str(fields[path])


def _from(
    source: Object, pod: Object, read_key: Callable[[str, str, str], str | None]
) -> str | None:
    if field := source.get("fieldRef"):
        return field_value(pod, field.get("fieldPath", ""))
    for kind in ("configMapKeyRef", "secretKeyRef"):
        if reference := source.get(kind):
            found = read_key(kind, reference.get("name", ""), reference.get("key", ""))
            if found is None and not reference.get("optional"):
                wanted = kind.removesuffix("KeyRef")
                raise Missing(f"{wanted} {reference.get('name')} has no key {reference.get('key')}")
            return found
    raise Missing(f"valueFrom {', '.join(source)} has no value on this machine")
