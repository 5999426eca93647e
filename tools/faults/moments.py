"""Which request is it, and the how-manieth? Which event of a watch?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import orjson

from tools.faults.plan import ANY, EACH, NEXT, Notice, Request

DRY_RUN = "dry-run"
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Counts:
    """Counts what a component asks for and is sent, over all its lives."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, str, str]] = Counter()

    def request(self, method: str, path: str, query: Mapping[str, str], body: bytes) -> Request:
        """Name a request; ``path`` is that of a namespaced resource, decoded."""
        what, name = _target(path)
        if method == "GET":
            verb = "watch" if query.get("watch") == "true" else "get" if name else "list"
        elif "dryRun" in query:
            # Nothing is stored: the create that follows is the first.
            verb = DRY_RUN
        else:
            verb = _VERBS[method]
        if verb in ("create", DRY_RUN) or what == "events":
            name = _name_in(body, what) or name
        return Request(verb=verb, what=what, name=name, nth=self._next(verb, what, name))

    def notice(self, what: str, kind: str, body: Mapping[str, Any]) -> Notice:
        """Name an event of the watch of ``what``."""
        name = body["metadata"].get("name", "")
        return Notice(what=what, kind=kind, name=name, nth=self._next(kind, what, name))

    def _next(self, *key: str) -> int:
        verb, what, name = key
        self._seen[verb, what, name] += 1
        return self._seen[verb, what, name]


def matches(wanted: Request | Notice, found: Request | Notice) -> bool:
    """Tell whether ``found`` is one of those ``wanted`` means."""
    if isinstance(wanted, Request) and isinstance(found, Request):
        verbs = wanted.verb, found.verb
    elif isinstance(wanted, Notice) and isinstance(found, Notice):
        verbs = wanted.kind, found.kind
    else:
        return False
    pairs = (verbs, (wanted.what, found.what), (wanted.name, found.name))
    return wanted.nth in (EACH, NEXT, found.nth) and all(
        mine in (ANY, other) for mine, other in pairs
    )


def _target(path: str) -> tuple[str, str]:
    """Plural with subresource, and name: both may follow a namespace."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    name = parts[1] if len(parts) > 1 else ""
    return (f"{parts[0]}/{parts[2]}" if len(parts) > 2 else parts[0]), name


def _name_in(body: bytes, what: str) -> str:
    """The name in a created object; for Events the reason, which repeats from run to run."""
    found = orjson.loads(body) if body else {}
    if what == "events":
        return str(found.get("reason", ""))
    return str(found["metadata"].get("name", ""))
