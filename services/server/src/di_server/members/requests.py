"""Parsing of requests about members."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from di_api.dns_names import MAX_LABEL
from di_kube.compact import compact
from di_server.deadline import check_wait
from di_server.members.entry import MAX_SAYS
from di_server.problems import Malformed, TooLarge
from di_server.rest.job_id import is_label
from di_server.rest.query import read_query, whole_number

TASK: Final = "task"
GENERATION: Final = "generation"
WAIT: Final = "wait"
CHANGES: Final = "changes"
_GENERATION: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_URL: Final = re.compile(r"[\x21-\x7e]{1,512}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MembersRequest:
    """A request for entries."""

    task: str | None
    """Task of the entries; None: all tasks."""
    known: str | None
    """The generation that the caller has."""
    wait: float
    """Seconds to wait for another generation."""
    changes: bool
    """Whether only the changes since `known` are requested."""


def members_request(query: Iterable[tuple[str, str]]) -> MembersRequest:
    """Return the request in a query of `.../members`; unknown keys are ignored.

    Raises:
        Malformed, OutOfBounds: with the key.
    """
    found = read_query(query, (TASK, GENERATION, WAIT, CHANGES))
    known = found.get(GENERATION)
    if known is not None and not _GENERATION.fullmatch(known):
        raise Malformed(f"{GENERATION}: must be one that was answered")
    changes = found.get(CHANGES, "false")
    if changes not in ("true", "false"):
        raise Malformed(f"{CHANGES}: must be true or false")
    wait = whole_number(WAIT, found.get(WAIT, "0"))
    check_wait(wait)
    return MembersRequest(task=found.get(TASK), known=known, wait=wait, changes=changes == "true")


def pod_name(text: str) -> str:
    """Return the pod name in a path.

    Raises:
        Malformed: no pod of a job has such a name.
    """
    if not is_label(text):
        raise Malformed(
            f"the name of a pod is 1 to {MAX_LABEL} of a-z, 0-9 and -, with a letter or digit at "
            "both ends"
        )
    return text


def says(body: Mapping[str, Any]) -> bytes:
    """Return a member's content in its stored form.

    Raises:
        Malformed, TooLarge: with the field.
    """
    url = body.get("url")
    if not isinstance(url, str) or not _is_url(url):
        raise Malformed("url: must be the URL where this pod serves, as http://10.0.0.1:8000")
    found = orjson.dumps(body)
    if len(found) > MAX_SAYS:
        # Numbers can become longer when they are written again.
        raise TooLarge(f"the body must not be longer than {MAX_SAYS} bytes, written without spaces")
    return compact(found)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return _URL.fullmatch(text) is not None and bool(parts.scheme and parts.hostname)
