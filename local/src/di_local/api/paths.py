"""Validation of paths and keys in volumes, ConfigMaps and Secrets. Pure functions.

The rules are those of Kubernetes' validation of pods and ConfigMaps: such a path is a file below
the directory of a volume, and never outside of it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from di_api.dns_names import is_dns_label
from di_api.field_error import items, mapping
from di_kube.resources import SECRETS

Object = Mapping[str, Any]
_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_LONGEST_KEY: Final = 253
_DATA: Final = ("data", "binaryData", "stringData")


def bad_path(path: object) -> str:
    """Return why a path below a volume is refused; empty if it is valid."""
    text = str(path or "")
    if text.startswith("/"):
        return "must be a relative path"
    if ".." in text.split("/"):
        return "must not contain '..'"
    if "\0" in text:
        return "must not contain NUL"
    return ""


def bad_file(path: object) -> str:
    """Return why the path of a file in a volume is refused; empty if it is valid."""
    if not path:
        return "is required"
    return bad_path(path) or ("must not start with '..'" if str(path).startswith("..") else "")


def bad_key(key: object) -> str:
    """Return why a key of a ConfigMap or Secret is refused; empty if it is valid."""
    text = str(key)
    if len(text) > _LONGEST_KEY or not _KEY.fullmatch(text):
        return (
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.', "
            f"{_LONGEST_KEY} at most"
        )
    return "must not be '.' or begin with '..'" if text == "." or text.startswith("..") else ""


def bad_data(kind: str, obj: Object) -> list[str]:
    """Return the faults in the content of a ConfigMap or Secret, each with its path."""
    encoded = ("data", "binaryData") if kind == SECRETS.kind else ("binaryData",)
    found = []
    for field in _DATA:
        values = obj.get(field)
        if not isinstance(values, dict | None):
            found.append(f"{field}: must be an object")
            continue
        for key, value in (values or {}).items():
            if why := bad_key(key) or _bad_value(value, is_encoded=field in encoded):
                found.append(f"{field}[{key}]: {why}")
    return found


def _bad_value(value: object, *, is_encoded: bool) -> str:
    if not isinstance(value, str):
        return "must be a string"
    try:
        if is_encoded:
            base64.b64decode("".join(value.split()), validate=True)
    except ValueError:
        return "must be base64"
    return ""


def bad_volume(volume: Object, path: str) -> Iterator[str]:
    """Yield the faults in the name of a volume and the paths in it, each with its path."""
    if not is_dns_label(volume.get("name")):
        yield f"{path}.name: {volume.get('name')!r} is no DNS label"
    host = str(mapping(volume.get("hostPath")).get("path", ""))
    if ".." in host.split("/"):
        yield f"{path}.hostPath.path: {host!r} must not contain '..'"
    sources = items(mapping(volume.get("projected")).get("sources"))
    for place, source in (
        (path, volume),
        *((f"{path}.projected.sources[{n}]", each) for n, each in enumerate(sources)),
    ):
        for kind in ("configMap", "secret", "downwardAPI"):
            for number, item in enumerate(items(mapping(mapping(source).get(kind)).get("items"))):
                file = mapping(item).get("path")
                if why := bad_file(file):
                    yield f"{place}.{kind}.items[{number}].path: {file!r} {why}"
        token = mapping(source).get("serviceAccountToken")
        if token is not None and (why := bad_file(mapping(token).get("path"))):
            file = mapping(token).get("path")
            yield f"{place}.serviceAccountToken.path: {file!r} {why}"
