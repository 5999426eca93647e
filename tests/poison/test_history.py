"""The history keeps whatever an API server has taken, and other objects break nothing of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given

from di_history.changes.events import event_entry, subject
from di_history.changes.jobs import first_sight_gap, gap, job_changes, job_gone
from di_history.changes.pods import logs_wanted, placement_changes, placement_gone, trimmed
from di_history.changes.snapshot import snapshot_of
from di_history.packing import from_json, to_json
from di_history.records import Record
from di_history.store.engine import migrate, open_engine
from di_history.store.reader import Reader
from di_history.store.writer import Writer
from tests.poison import FEW
from tests.poison.objects import Object, belonging, jobs, pods
from tests.poison.schema import JSON

NOW = 1_767_268_800_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Writer, Reader]]:
    engine = open_engine(f"sqlite:///{tmp_path_factory.mktemp('poison')}/history.db")
    migrate(engine)
    yield Writer(engine, job_log_bytes=1000, job_bytes=40 << 20), Reader(engine)
    engine.dispose()


@FEW
@given(before=jobs(), after=jobs(), pod=pods())
def test_every_job_and_pod_is_kept(
    store: tuple[Writer, Reader], before: Object, after: Object, pod: Object
) -> None:
    writer, reader = store
    uid = after["metadata"]["uid"]
    before["metadata"] |= {"uid": uid, "resourceVersion": "1"}
    after["metadata"]["resourceVersion"] = "2"
    kept = from_json(to_json(snapshot_of(before)))
    seen = trimmed(belonging(pod, uid))
    records: list[Record] = [
        *job_changes(None, before, NOW),
        *first_sight_gap(before, NOW),
        *job_changes(kept, after, NOW),
        *gap(kept, after, NOW, NOW),
        *placement_changes(None, seen, NOW),
        *placement_gone(seen, NOW),
        *job_gone(kept, NOW),
    ]
    logs_wanted(None, seen)

    writer.write(records)

    metadata = after["metadata"]
    found = reader.job(metadata["namespace"], metadata["name"], uid)
    assert found is None or found["deleted"] == NOW
    reader.timeline(uid)


@FEW
@given(odd=JSON, other=JSON)
def test_an_object_of_any_shape_raises_nothing(odd: Any, other: Any) -> None:
    for status, metadata in ((odd, other), (other, odd)):
        found: Object = {"metadata": metadata, "status": status, "spec": odd, "series": other}
        job_changes(None, found, NOW)
        job_changes(found, found, NOW)
        job_changes({"metadata": {"resourceVersion": "1"}}, {**found, "metadata": {}}, NOW)
        gap(found, found, NOW, NOW)
        seen = trimmed(found)
        placement_changes(None, seen, NOW)
        placement_gone(seen, NOW)
        logs_wanted(seen, seen)
        subject(found)
        event_entry(found, "u", NOW)
