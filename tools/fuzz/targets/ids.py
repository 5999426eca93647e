"""Ids of jobs in paths, and names of pods that tell their job."""

from __future__ import annotations

import re
from typing import Any, Final

from di_api.coordinated import coordinator_name, job_of
from di_api.dns_names import MAX_LABEL
from di_server import openapi
from di_server.coordination import requests
from di_server.model.references import JobRef
from di_server.problems import Malformed, NoSuchJob
from di_server.rest.job_id import parse_job_id

_SCHEMAS: Final[dict[str, Any]] = {
    name: parameter["schema"]
    for name, parameter in openapi.document()["components"]["parameters"].items()
}
_LABEL, _DOTTED = (
    re.compile(_SCHEMAS[name]["pattern"].removeprefix("^").removesuffix("$"), re.ASCII)
    for name in ("name", "id")
)


def job_id(data: bytes) -> None:
    """Every id is read as the OpenAPI document says, and the same again when it is written."""
    text = data.decode("utf-8", "replace")
    found = _named(text)
    assert found == _documented(text)
    if found is not None:
        # In a namespace of that name `job/x` would be the short form without a namespace.
        assert found.namespace == "job" or _named(found.id) == found
        assert _named(f"job/{found.id}") == found
        assert _named(f"{found.namespace}.{found.name}.{2**63 - 1}") == found
    _pod(text)


def _named(text: str) -> JobRef | None:
    """What an id names; None if it is refused."""
    try:
        return parse_job_id(text)
    except Malformed:
        return None


def _documented(text: str) -> JobRef | None:
    """What the document's paths make of a text: `/{id}`, `/{namespace}/{name}`, or below job/.

    As OpenAPI has it the path with the fixed `job/` is the one that is meant where it fits.
    """
    form = text.removeprefix("job/")
    if _DOTTED.fullmatch(form):
        namespace, name, *_ = form.split(".")
    elif form.count("/") == 1:
        namespace, _, name = form.partition("/")
    else:
        return None
    return JobRef(namespace, name) if _is_label(namespace) and _is_label(name) else None


def _is_label(text: str) -> bool:
    return len(text) <= MAX_LABEL and _LABEL.fullmatch(text) is not None


def _pod(text: str) -> None:
    """A pod's name tells its job, and the coordinator of that job has the name it is told by."""
    job = job_of(text)
    try:
        asking = requests.requester("rl", text)
    except NoSuchJob:
        assert job is None
    except Malformed:
        assert not _is_label(text)
    else:
        assert asking.ref == JobRef("rl", str(job))
        assert job_of(coordinator_name(asking.ref.name)) == asking.ref.name
