"""The goodput of a job on its present nodes, by its measured curve."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from di_operator.allocator.goodput.model import goodput
from di_operator.allocator.goodput.params import GoodputModel
from di_operator.allocator.model.job import JobInfo, NodeList
from di_operator.allocator.model.node import NodeInfo


def present_goodput(job: JobInfo, has: NodeList, nodes: Mapping[str, NodeInfo]) -> float | None:
    """Return samples of the initial batch a second, at the best batch; None: it has not been
    measured, or holds no nodes.
    """
    learners = has.task(job.scaled.name)
    if not learners:
        return None
    node = nodes.get(learners[0])
    model = job.model_on(node.kind if node is not None else "")
    return None if model is None else _goodput(model, len({*learners}), len(learners))


@lru_cache(maxsize=4096)
def _goodput(model: GoodputModel, nodes: int, learners: int) -> float:
    return goodput(model, nodes, learners)
