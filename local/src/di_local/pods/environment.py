"""What the process of a container is started with. Pure but for the files that volumes are."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

Object = Mapping[str, Any]
_REFERENCE: Final = re.compile(r"\$(\$|\((?P<name>[^()$]+)\))")
_SUBSCRIPT: Final = re.compile(r"(?P<path>metadata\.(?:labels|annotations))\['(?P<key>[^']+)'\]")
_HIDDEN: Final = ("DI_", "KUBERNETES_")
"""Prefixes of what a pod does not inherit from whoever runs the job."""


class Missing(Exception):
    """A value comes from where there is none; the message says from where."""


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of whoever runs the job that are no job's."""
    return {key: value for key, value in environ.items() if not key.startswith(_HIDDEN)}


def variables(
    container: Object,
    pod: Object,
    *,
    replaced: Callable[[str], str],
    read_key: Callable[[str, str, str], str | None],
) -> dict[str, str]:
    """The variables that a container defines, in their order.

    Args:
        replaced: puts the names and paths of this machine into a text.
        read_key: the value in a ConfigMap or Secret, by kind, name and key; None: there is none.

    Raises:
        Missing: a reference leads nowhere and is not optional.
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
    """Replace `$(NAME)` as a kubelet does: `$$` is a dollar, what is not known stays."""

    def value(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        return known.get(match["name"], match[0])

    return _REFERENCE.sub(value, text)


def words(
    texts: Sequence[str], known: Mapping[str, str], replaced: Callable[[str], str]
) -> list[str]:
    """A command or its arguments, with the values of the variables that they refer to."""
    return [replaced(expanded(text, known)) for text in texts]


def field_value(pod: Object, path: str) -> str:
    """The value of a field that a pod's own variables and files may refer to.

    Raises:
        Missing: it is none of those.
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
