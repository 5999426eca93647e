"""What a job is said to make of the nodes that it has."""

from __future__ import annotations

from di_operator.allocator.goodput.model import goodput
from di_operator.allocator.model.job import WAIT, NodeList
from di_operator.allocator.sizing.present_goodput import present_goodput
from tests.unit.allocator.worlds import elastic, model, nodes

ROOM = nodes(2, gpu=8)


def test_present_goodput_is_that_of_the_measured_curve() -> None:
    names = ("n000",) * 4 + ("n001",) * 2
    found = present_goodput(elastic("a"), NodeList.of({"learner": names}), ROOM)
    assert found == goodput(model(), 2, 6)


def test_a_job_without_a_curve_or_nodes_has_no_goodput() -> None:
    on_one = NodeList.of({"learner": ("n000",)})
    assert present_goodput(elastic("a", model=None, explored=0), on_one, ROOM) is None
    assert present_goodput(elastic("a"), WAIT, ROOM) is None
