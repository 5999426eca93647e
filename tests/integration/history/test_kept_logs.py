"""Which logs are kept, and until when, on both databases."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from di_history.changes.pods import LogWanted
from di_history.records import (
    Entry,
    EntryKind,
    WholeLog,
)
from di_history.store.reader import Reader
from di_history.store.writer import Writer
from tests.integration.history_records import T0, log, seen

WANTED = LogWanted(
    job="u1",
    namespace="rl",
    pod="p1",
    pod_uid="p1",
    container="di-container",
    attempt=0,
    previous=False,
    final=True,
    failed=False,
)


@pytest.mark.proves("history.md#what-is-kept/failures-restarts")
def test_a_failure_has_the_last_lines_of_its_pod(writer: Writer, reader: Reader) -> None:
    failure = Entry(
        job="u1", key="failure/p1", kind=EntryKind.FAILURE, at=T0, data={"uid": "p1", "exitCode": 1}
    )
    lines = b"".join(b"2026-01-01T12:00:00Z line %d\n" % i for i in range(100))
    writer.write([seen(), failure, log("p1", lines, failed=True)])

    (found,) = reader.timeline("u1", kinds=[EntryKind.FAILURE])

    assert found["lastLines"].splitlines()[-1] == "2026-01-01T12:00:00Z line 99"
    assert len(found["lastLines"].splitlines()) == 12


def test_a_log_is_read_as_it_was(writer: Writer, reader: Reader) -> None:
    body = bytes(range(256)) * 300
    writer.write([seen(), log("p1", body, cut=True)])

    found = reader.log("u1", "p1")

    assert found is not None
    assert (found["text"], found["cut"], found["size"]) == (body, True, len(body))
    assert reader.log("u1", "p2") is None
    assert reader.has_log(WANTED, whole=False)
    assert not reader.has_log(replace(WANTED, attempt=1), whole=False)


def test_the_log_of_a_container_that_has_ended_replaces_the_one_before(
    writer: Writer, reader: Reader
) -> None:
    def text_of() -> object:
        found = reader.log("u1", "p1")
        return found and found["text"]

    writer.write([log("p1", b"half", final=False)])
    writer.write([log("p1", None, note="gone")])
    assert text_of() == b"half"
    writer.write([log("p1", b"whole")])
    writer.write([log("p1", b"half", final=False)])
    assert text_of() == b"whole"


def test_past_a_jobs_bound_old_logs_go_and_failed_pods_last(writer: Writer, reader: Reader) -> None:
    noise = random.Random(1)
    names = ["failed", *(f"p{i}" for i in range(6))]
    for number, name in enumerate(names):
        text = noise.randbytes(30_000)
        writer.write([log(name, text, at=T0 + number, failed=name == "failed")])

    kept = {each["pod"]: each["note"] for each in reader.logs("u1")}

    assert [name for name in names if not kept[name]] == ["failed", "p4", "p5"]
    assert sum(each["stored"] for each in reader.logs("u1")) <= 100_000
    assert kept["p1"] == "given up: the job's logs are many"


def test_where_all_of_a_log_is_comes_after_its_end_and_stays(
    writer: Writer, reader: Reader
) -> None:
    whole = WholeLog(
        job="u1",
        pod_uid=WANTED.pod_uid,
        container=WANTED.container,
        attempt=WANTED.attempt,
        key="rl/u1/a.log.gz",
        size=7,
        cut=True,
        note="",
    )
    before, end = log("p1", b"x", final=False), log("p1", b"xy")
    lost = replace(whole, key="", size=0, note="away")

    writer.write([seen(), before, lost])
    assert not reader.has_log(WANTED, whole=True)
    assert reader.whole_log("u1", WANTED.pod) == {
        "whole_key": None,
        "whole_note": "away",
        "whole_cut": None,
        "whole_size": None,
    }
    writer.write([end, whole])
    # Somebody else who was late, and what is seen once more.
    writer.write([lost, end])

    assert reader.has_log(WANTED, whole=True)
    assert reader.whole_log("u1", WANTED.pod, WANTED.container) == {
        "whole_key": "rl/u1/a.log.gz",
        "whole_note": None,
        "whole_cut": True,
        "whole_size": 7,
    }
    assert reader.whole_log("u1", "another") is None


def test_an_end_without_all_of_it_is_read_again_where_all_is_wanted(
    writer: Writer, reader: Reader
) -> None:
    writer.write([seen(), log("p1", b"x")])

    assert reader.has_log(WANTED, whole=False)
    assert not reader.has_log(WANTED, whole=True)
