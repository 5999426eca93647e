"""Dry runs of a job's pods at the API server, before any is created.

Pod Security, a policy or a missing PriorityClass can reject pods, and no quota predicts that.
Without dry runs the allocator would evict other jobs for pods that are never created, and a
suspended or queued job would be rejected only hours later.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from di_api.spec import Template
from di_operator.builders.pod import PodRecipe
from di_operator.lifecycle.job_types.tasks.plan import pod_frame
from di_operator.lifecycle.observed.snapshot import Slot, Snapshot
from di_operator.lifecycle.policies.ranks import ranked_nodes
from di_operator.lifecycle.vocabulary.decision import Settings


def sample_pods(
    snapshot: Snapshot, slots: Iterator[Slot], settings: Settings
) -> tuple[PodRecipe, ...]:
    """Return one pod for each template of the job; none while its spec is unknown.

    Args:
        snapshot: of the job, which needs no nodes.
        slots: the pods that its spec requests.
        settings: of this installation.
    """
    if snapshot.spec is None:
        return ()
    # A few slots represent all: the addresses of thousands would not affect the answer.
    some = replace(snapshot, slots=tuple(_one_of_each(slots)))
    ranks, nodes = ranked_nodes(some, settings.service_domain)
    frame = pod_frame(some, snapshot.spec, nodes, settings)
    return tuple(
        PodRecipe(frame=frame, task=slot.task, index=slot.index, rank=ranks[slot.name])
        for slot in some.slots
    )


def _one_of_each(slots: Iterator[Slot]) -> Iterator[Slot]:
    """Yield the first pod of each task, and the first of each of its other templates."""
    seen: dict[str, list[Template]] = {}
    for slot in slots:
        templates = seen.setdefault(slot.task.name, [])
        template = slot.task.template_of(slot.index)
        if slot.is_core and not any(template is each for each in templates):
            templates.append(template)
            yield slot
