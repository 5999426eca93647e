"""What the pods of a job ask of a node, whichever type it has.

Apart from `choose`, since who forecasts needs these alone, and not all that a job type decides by.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from di_api.spec import JobSpec
from di_operator.lifecycle.job_types.coordinator import requests as of_coordinator
from di_operator.lifecycle.job_types.tasks import requests as of_tasks


def pod_spec(job: str, spec: JobSpec, pod: str) -> Mapping[str, Any]:
    """What the spec of a job of that name says about a pod by its name: what it takes of a node.

    Empty for a pod that is nothing the spec knows.
    """
    if spec.coordinated is not None:
        return of_coordinator.requests_of(spec, pod)
    return of_tasks.requests_of(job, spec, pod)
