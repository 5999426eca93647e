"""The resources that the pods of a job with a coordinator request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from di_api.pods.main_container import main_container
from di_api.spec import Coordinated, JobSpec, Role
from di_operator.builders.containers import with_amounts


def coordinated_of(spec: JobSpec) -> Coordinated:
    """Return the coordinator part of a job's spec."""
    assert spec.coordinated is not None, "the type of a job is chosen by it"
    return spec.coordinated


def requests_of(spec: JobSpec, pod: str) -> Mapping[str, Any]:
    """Return the containers of a pod; the template of an aggregator is not available here."""
    coordinated = coordinated_of(spec)
    replica = next((each for each in coordinated.replicas if each.name == pod), None)
    template = coordinated.template(replica.role if replica else Role.COORDINATOR) or {}
    containers = [dict(each) for each in (template.get("spec") or {}).get("containers") or ()]
    main = main_container(containers)
    if main is not None and replica is not None:
        main["resources"] = with_amounts(main.get("resources") or {}, replica.resources)
    return {"containers": containers}
