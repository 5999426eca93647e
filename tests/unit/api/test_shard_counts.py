"""The counts of data shards that the command, the page and metrics show."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from di_api.status.shards import MAX_SETS, read_shard_counts

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PROMPTS = {
    "size": 100,
    "epochs": 3,
    "leaseSeconds": 60,
    "done": 12,
    "total": 30,
    "epoch": 1,
    "leases": {
        "x-learner-0.5d0c": "2026-03-01T12:00:20Z 5d0c8a11 12-14,20",
        "x-learner-1.77aa": "2026-03-01T12:00:50Z - 15",
    },
}
_KEYS = st.sampled_from([*PROMPTS, "prompts", "shards", "until"])
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(["1-3,x,-", "2026-03-01T12:00:20Z - 1-", "a b c"]),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(_KEYS, below, max_size=4),
    max_leaves=12,
)


def test_the_counts_of_a_data_set_are_one_line() -> None:
    (found,) = read_shard_counts({"shards": {"prompts": PROMPTS}}, NOW)
    assert (found.name, found.under_way, found.workers) == ("prompts", 5, 2)
    assert str(found) == ("12 of 30 done, epoch 2 of 3, 5 with 2 workers; slow: x-learner-0.5d0c")


def test_a_data_set_without_workers_has_a_shorter_line() -> None:
    (found,) = read_shard_counts({"shards": {"prompts": {**PROMPTS, "leases": {}}}}, NOW)
    assert str(found) == "12 of 30 done, epoch 2 of 3"


def test_a_bounded_number_of_data_sets_is_read() -> None:
    many: dict[str, Any] = {f"s{number:02}": {} for number in range(40)}
    assert len(read_shard_counts({"shards": many}, NOW)) == MAX_SETS


@given(_JSON)
def test_a_status_of_any_shape_can_be_read(found: Any) -> None:
    for each in read_shard_counts({"shards": found}, NOW):
        assert str(each)
