"""The recommended batch size for the granted learners, by the job's goodput curve."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from di_operator.allocator.goodput.model import best_batch
from di_operator.allocator.goodput.params import GoodputModel
from di_operator.allocator.model.job import JobInfo, NodeList
from di_operator.allocator.model.node import NodeInfo

KEPT: Final = 0.1
"""A recommendation that changes by no more than this part is not given. Every report moves the
fit a little, and a program pays for each change of its batch.
"""


def advised_batch(
    job: JobInfo, has: NodeList, nodes: Mapping[str, NodeInfo], *, before: int | None = None
) -> int | None:
    """Return the samples of all learners between two updates; None: unknown, or not adjustable.

    It is that of the highest goodput, and a multiple of the number of learners. A job that reports
    no `maxBatchSize` above its initial batch chooses for itself.

    Args:
        before: the recommendation at the grant of the same nodes; None: there was none.
    """
    learners = has.task(job.scaled.name)
    if not learners:
        return None
    node = nodes.get(learners[0])
    model = job.model_on(node.kind if node is not None else "")
    if model is None or model.limits.maximum <= model.limits.initial:
        return None
    found = _best(model, len({*learners}), len(learners))
    if before is not None and found is not None and abs(found - before) <= KEPT * before:
        return before
    return found


@lru_cache(maxsize=4096)
def _best(model: GoodputModel, nodes: int, learners: int) -> int | None:
    best = best_batch(model, nodes, learners)
    return learners * best.atomic * (best.accumulation + 1) if best.goodput > 0 else None
