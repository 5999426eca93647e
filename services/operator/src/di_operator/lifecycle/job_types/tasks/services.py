"""The Services of a job with tasks: one for all of its pods, and one for each task that requests
it.
"""

from __future__ import annotations

from collections.abc import Iterator

from di_api.names import service_name, task_service_name
from di_kube.resources import SERVICES
from di_operator.builders.service import ServiceRecipe
from di_operator.builders.task_service import TaskServiceRecipe
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.vocabulary.actions import Create, Recipe


def missing_services(snapshot: Snapshot) -> Iterator[Create]:
    """Yield the creates of missing Services of a job with a known spec."""
    present = {found["metadata"]["name"] for found in snapshot.services}
    for name, recipe in wanted_services(snapshot):
        if name not in present:
            yield Create(resource=SERVICES, recipe=recipe)


def wanted_services(snapshot: Snapshot) -> Iterator[tuple[str, Recipe]]:
    """Yield the names and recipes of the Services of such a job."""
    yield service_name(snapshot.name), ServiceRecipe(job=snapshot.job)
    for task in snapshot.tasks:
        if task.service is not None:
            recipe = TaskServiceRecipe(job=snapshot.job, task=task.name, service=task.service)
            yield task_service_name(snapshot.name, task.name), recipe
