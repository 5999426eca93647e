"""The resources that the pods of a job request, for every type of job.

Separate from `choose`: forecasts need only this, not the decisions of a job type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from di_api.spec import JobSpec
from di_operator.lifecycle.job_types.coordinator import requests as of_coordinator
from di_operator.lifecycle.job_types.tasks import requests as of_tasks


def pod_spec(job: str, spec: JobSpec, pod: str) -> Mapping[str, Any]:
    """Return the pod spec, as far as it concerns resources, for the name of a pod of a job.

    Empty for a pod that the spec does not have.
    """
    if spec.coordinated is not None:
        return of_coordinator.requests_of(spec, pod)
    return of_tasks.requests_of(job, spec, pod)
