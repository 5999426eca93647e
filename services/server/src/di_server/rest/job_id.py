"""Job ids in paths."""

from __future__ import annotations

import re
from typing import Final

from di_api.dns_names import MAX_LABEL
from di_server.model.references import JobRef
from di_server.problems import Malformed

_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_MAX_GENERATION: Final = 19
"""Number of digits of the largest 64-bit generation."""
_MAX_ID: Final = len("job/") + 2 * MAX_LABEL + _MAX_GENERATION + 2
_FORMS: Final = "a job id is <namespace>.<name>, <namespace>.<name>.<generation> or"
_RULE: Final = (
    f"{_FORMS} <namespace>/<name>; namespace and name are 1 to {MAX_LABEL} of a-z, 0-9 and -, "
    "with a letter or digit at both ends; a generation is a whole number"
)


def parse_job_id(text: str) -> JobRef:
    """Parse the part of a path between the version and the resource, `job/` included.

    Names contain no dots, so `job/a.b` is the id `a.b`. `job/a` lacks its namespace; a namespace
    called `job` is written `job.a` and `job/job/a`. The generation is validated and not compared:
    scaling changes it, and a pod keeps the id from its start.

    Raises:
        Malformed: the text is not an id. Time is linear in the length, and constant beyond the
            longest id.
    """
    if len(text) > _MAX_ID:
        raise Malformed(_RULE)
    segments = text.split("/")
    if segments[0] == "job":
        del segments[0]
        if len(segments) == 1 and is_label(segments[0]):
            raise Malformed(f"job/{segments[0]} lacks the namespace: {_RULE}")
    parts = segments[0].split(".") if len(segments) == 1 else segments
    generation = parts[2] if len(segments) == 1 and len(parts) == 3 else "0"
    if len(parts) not in (2, 2 + (len(segments) == 1)):
        raise Malformed(_RULE)
    namespace, name = parts[:2]
    if not (is_label(namespace) and is_label(name) and _is_number(generation)):
        raise Malformed(_RULE)
    return JobRef(namespace, name)


def is_label(text: str) -> bool:
    """Return whether the text is a label of a DNS name (RFC 1123)."""
    # The length is checked first: the pattern can read a character more than once.
    return len(text) <= MAX_LABEL and _LABEL.fullmatch(text) is not None


def _is_number(text: str) -> bool:
    # str.isdigit alone also accepts digits of other scripts.
    return len(text) <= _MAX_GENERATION and text.isascii() and text.isdigit()
