"""Parsing of a kubeconfig file with kubectl's checks; errors have the file and the path."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from di_api.field_error import FieldError, child
from di_kube.safe_yaml import BadYaml, load_documents

LISTS: Final = ("clusters", "users", "contexts")


class BadKubeconfig(ValueError):
    """The file is unreadable or invalid; the message has its name."""


def read_file(path: Path) -> Mapping[str, Any]:
    """Return the content of a file; an empty one is an empty configuration.

    Raises:
        BadKubeconfig: it is unreadable, or a field has a wrong type.
    """
    try:
        documents = load_documents(path.read_text("utf-8"))
    except UnicodeDecodeError as error:
        raise BadKubeconfig(f"{path}: it is no text: byte {error.start} is not UTF-8") from error
    except OSError as error:
        raise BadKubeconfig(f"{path}: {error.strerror or error}") from error
    except BadYaml as error:
        raise BadKubeconfig(f"{path}: {error}") from error
    found = documents[0] if documents else None
    if found is None:
        return {}
    fault = next(_of_object(_FILE, found, ""), None)
    if fault is not None:
        raise BadKubeconfig(f"{path}: {fault}")
    return dict(found)


def missing_user(files: str, context: str, user: str) -> str:
    """Return the error for a context whose user is in none of the files."""
    return f"{files}: context {context!r} names user {user!r}, and there is none of that name"


Check = Callable[[object, str], Iterator[FieldError]]


def _text(value: object, path: str) -> Iterator[FieldError]:
    if not isinstance(value, str):
        is_plain = isinstance(value, int | float) and not isinstance(value, bool)
        hint = ": put it in quotes" if is_plain else ""
        yield FieldError(path, value, f"must be text{hint}")


def _flag(value: object, path: str) -> Iterator[FieldError]:
    if not isinstance(value, bool):
        yield FieldError(path, value, "must be true or false")


def _mapping(fields: Mapping[str, Check]) -> Check:
    return lambda value, path: _of_object(fields, value, path)


def _list(item: Check) -> Check:
    def check(value: object, path: str) -> Iterator[FieldError]:
        if not isinstance(value, list):
            yield FieldError(path, value, "must be a list")
            return
        for index, each in enumerate(value):
            yield from item(each, child(path, index))

    return check


def _of_object(fields: Mapping[str, Check], value: object, path: str) -> Iterator[FieldError]:
    if not isinstance(value, dict):
        yield FieldError(path or "the file", value, "must be a map")
        return
    for name, check in fields.items():
        # A null field counts as missing, as it does for kubectl.
        if value.get(name) is not None:
            yield from check(value[name], child(path, name))


def _texts(*names: str) -> dict[str, Check]:
    return dict.fromkeys(names, _text)


def _entries(kind: str, fields: Mapping[str, Check]) -> Check:
    return _list(_mapping({"name": _text, kind: _mapping(fields)}))


_NAMED: Final[Check] = _list(_mapping(_texts("name", "value")))
_FILE: Final[Mapping[str, Check]] = {
    "current-context": _text,
    "clusters": _entries(
        "cluster",
        {
            **_texts("server", "certificate-authority", "certificate-authority-data"),
            **_texts("tls-server-name", "proxy-url"),
            "insecure-skip-tls-verify": _flag,
        },
    ),
    "contexts": _entries("context", _texts("cluster", "user", "namespace")),
    "users": _entries(
        "user",
        {
            **_texts("client-certificate", "client-certificate-data"),
            **_texts("client-key", "client-key-data"),
            **_texts("token", "tokenFile", "username", "password"),
            "exec": _mapping(
                {**_texts("apiVersion", "command"), "args": _list(_text), "env": _NAMED}
            ),
            "auth-provider": _mapping(_texts("name")),
        },
    ),
}
