"""Which batch a job is advised with the learners it is granted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from di_operator.allocator.goodput.model import best_batch
from di_operator.allocator.goodput.params import BatchLimits
from di_operator.allocator.model.job import WAIT, JobInfo, NodeList
from di_operator.allocator.sizing.batch_size import KEPT, advised_batch
from tests.unit.allocator.worlds import elastic, model, nodes

ROOM = nodes(2, gpu=8)
ONE_SIZE = BatchLimits(initial=128, maximum=128, local_min=1, local_max=128)


def on(*names: str) -> NodeList:
    return NodeList.of({"learner": names})


def advised(job: JobInfo, has: NodeList, before: int | None = None) -> int | None:
    return advised_batch(job, has, ROOM, before=before)


@pytest.mark.proves("allocation.md#the-batch")
@pytest.mark.parametrize("names", [["n000"], ["n000"] * 3, ["n000"] * 4 + ["n001"] * 4])
def test_the_advised_batch_is_that_of_the_highest_goodput(names: list[str]) -> None:
    best = best_batch(model(), len({*names}), len(names))
    found = advised(elastic("a"), on(*names))
    assert found == len(names) * best.atomic * (best.accumulation + 1)


def test_more_learners_are_worth_a_larger_batch() -> None:
    small, large = (advised(elastic("a"), on(*["n000"] * count)) or 0 for count in (1, 8))
    assert small < large


@pytest.mark.parametrize(
    ("job", "has"),
    [
        (elastic("a", model=None, explored=0), on("n000")),
        (elastic("a", model=replace(model(), limits=ONE_SIZE)), on("n000")),
        (elastic("a"), WAIT),
        (
            elastic("a", model=replace(model(), limits=replace(model().limits, local_min=4096))),
            on(*["n000"] * 3),
        ),
    ],
    ids=["without a report", "of one batch", "that waits", "too many for its largest batch"],
)
def test_no_batch_is_advised_without_measurements_nodes_or_a_choice(
    job: JobInfo, has: NodeList
) -> None:
    assert advised(job, has) is None


def test_the_advised_batch_depends_on_the_node_type() -> None:
    job = elastic("a", model=None, by_kind={"fast": model(step=0.01), "slow": model(step=1.0)})
    fast, slow = (
        advised_batch(
            job, on("n000"), {name: replace(node, kind=kind) for name, node in ROOM.items()}
        )
        for kind in ("fast", "slow")
    )
    assert fast != slow
    # A node that has gone is of no kind: what was measured on any is as good.
    assert advised_batch(job, on("gone"), ROOM) in (fast, slow)


@pytest.mark.proves("allocation.md#the-batch")
def test_a_batch_close_to_the_last_advice_is_not_changed() -> None:
    has = on("n000", "n000")
    found = advised(elastic("a"), has)
    assert found is not None
    near, far = round(found * (1 + KEPT / 2)), round(found * (1 + 3 * KEPT))
    assert advised(elastic("a"), has, before=near) == near
    assert advised(elastic("a"), has, before=far) == found
