"""A job with its reports, wherever they are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from di_api.field_error import mapping
from di_cli.access.history import History
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.session import Session
from di_cli.views.reports import Reports
from di_kube.errors import NotFound

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A job in the cluster, in di-history, or in both.

    Attributes:
        job: None if only di-history has it.
        history: its record in di-history; None without one.
        reports: of di-history, with the last one of the cluster.
    """

    name: str
    job: Object | None
    history: Object | None
    reports: Reports

    @property
    def uid(self) -> str:
        """Return the UID of the job."""
        known = mapping((self.job or {}).get("metadata")) or mapping(
            mapping(self.history or {}).get("job")
        )
        return str(known.get("uid") or "")


def read_kept(session: Session, history: History | None, name: str) -> Kept:
    """Return a job of the session's namespace with its reports.

    Args:
        history: None: there is the last report alone, which the cluster has.

    Raises:
        CommandError: di-history refused it, or has no job of which the cluster has none.
        NotFound: neither has it.
    """
    job = _job(session, name, may_be_gone=history is not None)
    reports, record = Reports(), None
    if history is not None:
        chosen = uid_query(mapping((job or {}).get("metadata")))
        try:
            reports.read(history.json(session.namespace, name, "/series", **chosen))
            record = history.json(session.namespace, name, **chosen)
        except CommandError as error:
            if job is None or error.code != ExitCode.NOT_FOUND:
                raise
    if job is not None:
        reports.see(job)
    return Kept(name=name, job=job, history=record, reports=reports)


def uid_query(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return the query for one of several jobs that had the name."""
    uid = metadata.get("uid")
    return {"uid": str(uid)} if uid else {}


def _job(session: Session, name: str, *, may_be_gone: bool) -> Object | None:
    try:
        return session.job(name)
    except NotFound:
        if not may_be_gone:
            raise
        return None
