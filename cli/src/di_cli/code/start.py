"""Start of a job with its code, and new code for a job, at the API server.

The order is: ConfigMap, job, owner of the ConfigMap. After a crash at any place the same command
continues: an unowned ConfigMap is used again, and one whose job exists gets its owner.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from di_api.field_error import mapping
from di_api.names import LABEL_CODE_OF
from di_cli.code.bundle import Bundle
from di_cli.code.submission import (
    code_of,
    config_map,
    config_map_name,
    outdated,
    owner_of,
    owners,
)
from di_cli.errors import CommandError
from di_cli.session import Session
from di_kube.errors import AlreadyExists, ApiError, NotFound
from di_kube.resources import CONFIGMAPS, DIJOBS

Object = dict[str, Any]
_ATTEMPTS: Final = 10


def start(session: Session, make: Callable[[str], Object], bundle: Bundle, source: str) -> Object:
    """Create the ConfigMap and the job that `make` returns for its name; return the job.

    Raises CommandError.
    """
    # A refused job must leave no ConfigMap.
    name = str(_create(session, make("unknown"), dry_run=True)["metadata"]["name"])
    stored = _store(session, name, bundle, source)
    made = _create(session, make(stored))
    _own(session, stored, owner_of(made))
    return made


def _create(session: Session, job: Object, *, dry_run: bool = False) -> Object:
    try:
        return session.create_job(job, dry_run=dry_run)
    except CommandError as error:
        if not isinstance(error.__cause__, AlreadyExists):
            raise
        name = str(job["metadata"]["name"])
        _finish(session, name)
        raise CommandError(
            f"dijob/{name} exists already",
            where="nothing was submitted",
            remedy=f"di push {name}",
        ) from error


def push(
    session: Session,
    job: Object,
    bundle: Bundle,
    *,
    source: str,
    requirements: str | None,
    revision: str | None,
) -> bool:
    """Give a job another bundle; return whether its pods restart."""
    name, owner = str(job["metadata"]["name"]), owner_of(job)
    before = mapping(mapping(job.get("spec")).get("code"))
    stored = _store(session, name, bundle, source, owner)
    code = code_of(stored, bundle, requirements=requirements, revision=revision)
    if all(before.get(key) == code.get(key) for key in ("configMap", "sha256", "requirements")):
        return False
    absent = {key: None for key in ("requirements", "revision") if key not in code}
    session.client.patch(DIJOBS, name, {"spec": {"code": {**code, **absent}}}, session.namespace)
    _forget(session, name, stored, str(owner["uid"]))
    return any(before.get(key) != code.get(key) for key in ("sha256", "requirements"))


def _store(
    session: Session, job: str, bundle: Bundle, source: str, owner: Object | None = None
) -> str:
    """Create the ConfigMap of a bundle, or find the one of an earlier try; return its name.

    A ConfigMap of an earlier job with the same name is about to be deleted, so another name is
    chosen beside it.
    """
    uids = {str(owner["uid"])} if owner else set()
    for attempt in range(_ATTEMPTS):
        name = config_map_name(job, bundle.sha256, attempt)
        body = config_map(name, job, bundle, source, owner)
        try:
            session.client.create(CONFIGMAPS, body, session.namespace)
        except AlreadyExists:
            with suppress(NotFound):
                found = session.client.get(CONFIGMAPS, name, session.namespace)
                if owner and not owners(found):
                    _own(session, name, owner)
                    return name
                if owners(found) <= uids and not found["metadata"].get("deletionTimestamp"):
                    return name
        else:
            return name
    raise CommandError(
        f"the ConfigMaps {job}-code-* of this code belong to earlier jobs",
        remedy="try again when they are deleted, or choose another --name",
    )


def _own(session: Session, name: str, owner: Object) -> None:
    """Make a job the owner of a ConfigMap, so that it is deleted with the job."""
    session.client.patch(
        CONFIGMAPS, name, {"metadata": {"ownerReferences": [owner]}}, session.namespace
    )


def _finish(session: Session, name: str) -> None:
    """Give the ConfigMap of a job its owner, if an earlier try ended before that."""
    with suppress(ApiError):
        job = session.job(name)
        code = mapping(mapping(job.get("spec")).get("code")).get("configMap")
        if code and not owners(session.client.get(CONFIGMAPS, str(code), session.namespace)):
            _own(session, str(code), owner_of(job))


def _forget(session: Session, job: str, current: str, uid: str) -> None:
    """Delete the oldest ConfigMaps of a job. A failure leaves them for the next push."""
    with suppress(ApiError):
        selector = f"{LABEL_CODE_OF}={job}"
        found, _ = session.client.list(CONFIGMAPS, session.namespace, label_selector=selector)
        for name in outdated(found, current, uid):
            session.client.delete(CONFIGMAPS, name, session.namespace)
