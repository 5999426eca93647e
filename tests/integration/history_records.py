"""Records of one job, and how many rows there are of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import Engine, func, select

from di_history.records import (
    EndedLog,
    Entry,
    EntryKind,
    JobGone,
    JobSeen,
    Placement,
    Record,
    Revision,
    Sample,
)
from di_history.store.tables import OF_JOBS, jobs

T0 = 1_767_268_800_000


def seen(uid: str = "u1", version: int = 1, **fields: Any) -> JobSeen:
    base = JobSeen(
        uid=uid,
        namespace="rl",
        name="x",
        owner="kubectl",
        created=T0,
        phase="Running",
        completed=None,
        seen=T0,
        version=version,
        snapshot=b"{}",
    )
    return replace(base, **fields)


def entry(key: str, at: int = T0, *, uid: str = "u1", version: int = 0, **data: object) -> Entry:
    return Entry(job=uid, key=key, kind=EntryKind.EVENT, at=at, version=version, data=data)


def placement(pod: str, since: int, until: int | None = None, version: int = 1) -> Placement:
    return Placement(
        pod_uid=pod,
        job="u1",
        namespace="rl",
        pod=pod,
        task="learner",
        rank=0,
        node="n1",
        gpus=1,
        since=since,
        until=until,
        outcome="Running" if until is None else "Succeeded",
        reason="",
        exit_code=None,
        version=version,
    )


def log(pod: str, data: bytes | None, at: int = T0, **fields: Any) -> EndedLog:
    base = EndedLog(
        job="u1", pod_uid=pod, pod=pod, container="di-container", attempt=0, at=at, text=data
    )
    return replace(base, **fields)


def everything() -> list[Record]:
    """One of each kind, of a job that is gone."""
    return [
        seen(),
        Revision(job="u1", number=1, at=T0, who="kubectl", manifest=b'{"spec":{}}'),
        entry("a", T0 + 1, message="one\x00two"),
        placement("p1", T0),
        Sample(job="u1", at=T0, values={"step": 1.0, "reward": 0.5}),
        log("p1", b"2026-01-01T12:00:00Z hello\n"),
        JobGone(uid="u1", at=T0 + 5),
    ]


def rows(engine: Engine) -> dict[str, int]:
    """How many each table has."""
    with engine.connect() as connection:
        return {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in (jobs, *OF_JOBS)
        }
