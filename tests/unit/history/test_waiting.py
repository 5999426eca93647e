"""Records that wait: their weight, and which of them later ones replace."""

from __future__ import annotations

from dataclasses import replace

import pytest

from di_history.records import Record, Revision
from di_history.waiting import Queue, job_of, weight
from tests.integration.history_records import entry, everything, seen

KIB = 1 << 10


def revision(number: int, size: int, *, job: str = "u1") -> Revision:
    return Revision(job=job, number=number, at=number, who="ann", manifest=b"x" * size)


def queue(*records: Record, job_revisions: int = 1 << 20) -> Queue:
    found = Queue(job_revisions=job_revisions)
    for each in records:
        found.put("rl", each)
    return found


def everything_of(found: Queue) -> list[Record]:
    return [each.record for each in found.take(records=10_000, most=1 << 40)]


def test_every_record_has_a_weight() -> None:
    assert min(map(weight, everything())) > 200
    assert weight(seen(snapshot=b"x" * 100_000)) > 100_000
    assert weight(revision(1, 100_000)) > 100_000
    assert weight(entry("a", message="m" * 100_000)) > 100_000


def test_the_bytes_of_a_queue_are_those_that_wait() -> None:
    found = queue(*everything())
    assert found.bytes == sum(map(weight, everything()))
    taken = found.take(records=3, most=1 << 40)
    assert found.bytes == sum(map(weight, everything()[3:]))
    found.put_back(taken)
    assert found.bytes == sum(map(weight, everything()))
    assert everything_of(found) == everything()
    assert (found.bytes, len(found)) == (0, 0)


def test_a_later_sight_of_a_job_replaces_an_earlier_one() -> None:
    first, last, other = seen(version=1), seen(version=2), seen("u2")
    between = entry("a")
    found = queue(first, between, other, last)
    # After the entry, which must not be written later than a sight that has it.
    assert everything_of(found) == [between, other, last]
    found.put("rl", first)
    assert everything_of(found) == [first]


@pytest.mark.proves("history.md#shares/records")
def test_revisions_past_a_jobs_bound_lose_the_oldest() -> None:
    found = queue(
        *(revision(number, 100 * KIB) for number in range(60)),
        revision(1, 100 * KIB, job="u2"),
        job_revisions=350 * KIB,
    )
    assert found.bytes < 450 * KIB
    assert everything_of(found) == [
        *(revision(number, 100 * KIB) for number in (57, 58, 59)),
        revision(1, 100 * KIB, job="u2"),
    ]
    found.put("rl", revision(60, 400 * KIB))
    assert everything_of(found) == [revision(60, 400 * KIB)]


def test_a_batch_is_bounded_in_bytes_but_never_empty() -> None:
    found = queue(*(revision(number, 100 * KIB) for number in range(5)))
    sizes = []
    while taken := found.take(records=100, most=250 * KIB):
        sizes.append(len(taken))
    assert sizes == [2, 2, 1]
    found.put("rl", revision(9, 500 * KIB))
    assert len(found.take(records=100, most=250 * KIB)) == 1
    assert found.take(records=100, most=250 * KIB) == []


def test_a_queue_drops_whole_jobs_of_the_heaviest_namespaces() -> None:
    found = Queue(job_revisions=1 << 30)
    for number in range(4):
        for job, size in (("quiet", 10), ("small", 20), ("large", 100)):
            namespace = "b" if job == "quiet" else "a"
            found.put(namespace, revision(number, size * KIB, job=job))
            found.put(namespace, replace(entry(str(number)), job=job))
    assert list(found.shrink(1 << 30)) == []
    assert list(found.shrink(200 * KIB)) == [("large", 8)]
    assert found.bytes <= 200 * KIB
    assert list(found.shrink(50 * KIB)) == [("small", 8)]
    # What the heavier one has lost is enough.
    assert {job_of(each) for each in everything_of(found)} == {"quiet"}
    assert found.bytes == 0


def test_a_job_is_dropped_with_what_was_put_back() -> None:
    found = queue(*(revision(number, KIB) for number in range(3)), seen("u1"))
    taken = found.take(records=2, most=1 << 40)
    found.put("rl", revision(9, KIB, job="u2"))
    found.put_back(taken)
    assert list(found.shrink(2 * KIB)) == [("u1", 4)]
    assert everything_of(found) == [revision(9, KIB, job="u2")]
    assert found.bytes == 0
