"""Start of a job with its code, and new code for a job, at the API server.

The order is: bundle on a claim if it is large, ConfigMaps, job, owner of the ConfigMaps. After a
crash at any place the same command continues: an unowned ConfigMap is used again, and one whose job
exists gets its owner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

from di_api.code_names import LABEL_CODE_OF
from di_api.field_error import mapping
from di_cli.code.bundle import Bundle
from di_cli.code.submission import (
    Stored,
    code_of,
    config_map_name,
    config_map_names,
    config_maps,
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
_BUNDLE: Final = ("configMap", "persistentVolumeClaim", "parts", "sha256", "requirements")

_ABSENT: Final = ("persistentVolumeClaim", "parts", "requirements", "revision")


def start(
    session: Session,
    make: Callable[[Stored], Object],
    bundle: Bundle,
    source: str,
    claim: str | None = None,
) -> Object:
    """Create the ConfigMaps and the job that `make` returns for the place of the bundle; return the
    job.

    Args:
        claim: for a bundle that ConfigMaps cannot hold; None: the one of the namespace.

    Raises:
        CommandError: it was refused, or no claim is for the bundle.
    """
    claim = _claim_for(session, bundle, claim)
    # A refused job must leave no ConfigMap.
    tried = _create(session, make(Stored(claim=claim)), dry_run=True)
    _keep(session, tried, bundle, claim)
    stored = _store(session, str(tried["metadata"]["name"]), bundle, source=source, claim=claim)
    made = _create(session, make(stored))
    _own(session, config_map_names(made["spec"]["code"]), owner_of(made))
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
    claim: str | None = None,
) -> bool:
    """Give a job another bundle; return whether its pods restart.

    Args:
        claim: as for `start`; None: the job's, or that of the namespace.
    """
    name, owner = str(job["metadata"]["name"]), owner_of(job)
    before = mapping(mapping(job.get("spec")).get("code"))
    claim = _claim_for(session, bundle, claim, before.get("persistentVolumeClaim"))
    _keep(session, job, bundle, claim)
    stored = _store(session, name, bundle, source=source, claim=claim, owner=owner)
    code = code_of(stored, bundle, requirements=requirements, revision=revision)
    if all(before.get(key) == code.get(key) for key in _BUNDLE):
        return False
    absent = {key: None for key in _ABSENT if key not in code}
    session.client.patch(DIJOBS, name, {"spec": {"code": {**code, **absent}}}, session.namespace)
    _forget(session, name, stored.config_map, str(owner["uid"]))
    return any(before.get(key) != code.get(key) for key in ("sha256", "requirements"))


def _claim_for(
    session: Session, bundle: Bundle, given: str | None, current: str | None = None
) -> str | None:
    if not bundle.is_large:
        return None
    from di_cli.code.claims import claim_for  # noqa: PLC0415  a tenth of a second of each push

    return claim_for(session, bundle, given, current)


def _keep(session: Session, job: Object, bundle: Bundle, claim: str | None) -> None:
    if claim:
        from di_cli.code.claims import keep  # noqa: PLC0415  as above

        keep(session, job, bundle, claim)


def _store(
    session: Session,
    job: str,
    bundle: Bundle,
    *,
    source: str,
    claim: str | None,
    owner: Object | None = None,
) -> Stored:
    """Create the ConfigMaps of a bundle, or find those of an earlier try; return its place.

    A ConfigMap of an earlier job with the same name is about to be deleted, so other names are
    chosen beside it.
    """
    for attempt in range(_ATTEMPTS):
        stored = Stored(config_map=config_map_name(job, bundle, attempt), claim=claim)
        bodies = config_maps(stored, job, bundle, source, owner)
        if all(_is_stored(session, body, owner) for body in bodies):
            return stored
    raise CommandError(
        f"the ConfigMaps {job}-code-* of this code belong to earlier jobs",
        remedy="try again when they are deleted, or choose another --name",
    )


def _is_stored(session: Session, body: Object, owner: Object | None) -> bool:
    """Create a ConfigMap, or find the one of an earlier try; return False if the name is another
    job's.
    """
    name = str(body["metadata"]["name"])
    try:
        session.client.create(CONFIGMAPS, body, session.namespace)
    except AlreadyExists:
        try:
            found = session.client.get(CONFIGMAPS, name, session.namespace)
        except NotFound:
            return False
        if owner and not owners(found):
            _own(session, [name], owner)
            return True
        uids = {str(owner["uid"])} if owner else set()
        return owners(found) <= uids and not found["metadata"].get("deletionTimestamp")
    return True


def _own(session: Session, names: Iterable[str], owner: Object) -> None:
    """Make a job the owner of ConfigMaps, so that they are deleted with the job."""
    patch = {"metadata": {"ownerReferences": [owner]}}
    for name in names:
        session.client.patch(CONFIGMAPS, name, patch, session.namespace)


def _finish(session: Session, name: str) -> None:
    """Give the ConfigMaps of a job their owner, if an earlier try ended before that."""
    with suppress(ApiError):
        job = session.job(name)
        for each in config_map_names(mapping(mapping(job.get("spec")).get("code"))):
            if not owners(session.client.get(CONFIGMAPS, each, session.namespace)):
                _own(session, [each], owner_of(job))


def _forget(session: Session, job: str, current: str, uid: str) -> None:
    """Delete the oldest ConfigMaps of a job. A failure leaves them for the next push."""
    with suppress(ApiError):
        selector = f"{LABEL_CODE_OF}={job}"
        found, _ = session.client.list(CONFIGMAPS, session.namespace, label_selector=selector)
        for name in outdated(found, current, uid):
            session.client.delete(CONFIGMAPS, name, session.namespace)
