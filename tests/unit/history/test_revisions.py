"""Which revisions of a job are kept."""

from __future__ import annotations

import pytest

from di_history.store.revisions import MERGED, ROW_BYTES, UNMERGED, Stored, revisions_to_keep

T0 = 1_767_268_800_000


def revisions(*, every: int, count: int, size: int = 1000, contents: int = 0) -> list[Stored]:
    """The newest first, one each `every` milliseconds; all different, or so many contents."""
    return [
        Stored(
            number=number,
            at=T0 + number * every,
            content=str(number % contents if contents else number),
            size=size,
            holder=number,
        )
        for number in range(count, 0, -1)
    ]


def numbers(found: list[Stored]) -> list[int]:
    return [each.number for each in found]


def test_slow_revisions_are_all_kept_within_the_bound() -> None:
    found = revisions(every=MERGED, count=100)
    assert revisions_to_keep(found, 1 << 30) == found


@pytest.mark.proves("history.md#what-is-kept/revisions")
@pytest.mark.proves("history.md#shares/revision")
def test_of_fast_revisions_the_newest_and_one_a_minute_stay() -> None:
    found = revisions(every=1000, count=3600)
    kept = revisions_to_keep(found, 1 << 30)
    assert numbers(kept)[:UNMERGED] == list(range(3600, 3600 - UNMERGED, -1))
    older = [each.at // MERGED for each in kept[UNMERGED:]]
    assert len(older) == len(set(older))
    assert len(older) in (59, 60)


def test_past_the_bound_the_oldest_revisions_go() -> None:
    found = revisions(every=MERGED, count=100, size=1000)
    kept = revisions_to_keep(found, 10 * (1000 + ROW_BYTES))
    assert numbers(kept) == list(range(100, 90, -1))


def test_equal_manifests_count_once() -> None:
    found = revisions(every=MERGED, count=100, size=100_000, contents=2)
    assert len(revisions_to_keep(found, 2 * 100_000 + 100 * ROW_BYTES)) == 100


def test_the_newest_revision_stays_whatever_its_size() -> None:
    assert numbers(revisions_to_keep(revisions(every=1, count=3), 10)) == [3]
    assert revisions_to_keep([], 10) == []
