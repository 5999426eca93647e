"""Reads the API server's answer to a create, or to a dry run of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from di_kube.client import KubeClient
from di_kube.errors import AlreadyExists, Forbidden, Invalid, NotFound
from di_kube.resources import CONFIGMAPS, WORKLOADS, Resource
from di_operator.lifecycle.write_errors import (
    CreateForbidden,
    Fault,
    NodeListsRefused,
    QuotaExceeded,
    TemplateRefused,
    WorkloadRefused,
)

_NO_DRY_RUN: Final = "BadRequest"
"""`Status.reason` of a dry run where an admission webhook supports none, so that nothing is known.

A webhook that denies an object answers 400 as well if it names no code, without this reason.
"""


async def dry_run(client: KubeClient, resource: Resource, body: Mapping[str, Any]) -> Fault | None:
    """Ask whether an object would be created; None if it would, or if that is not judged.

    Raises ApiError if the answer says nothing about the object.
    """
    try:
        await client.create(resource, dict(body), body["metadata"]["namespace"], dry_run=True)
    except AlreadyExists:
        # Admission comes before the name: the object that has it is read when the pod is made.
        return None
    except Invalid as error:
        return None if error.reason == _NO_DRY_RUN else refusal(resource, error)
    except Forbidden as error:
        # The last that is judged. Quotas are full and free again all the time: the allocator
        # knows those that can be read.
        return None if error.is_quota else refusal(resource, error)
    except NotFound as error:
        return refusal(resource, error)
    return None


def refusal(resource: Resource, error: NotFound | Invalid | Forbidden) -> Fault:
    """Return what a refused create means for the job. Raises the error if it means nothing."""
    if resource == WORKLOADS:
        return WorkloadRefused(message=error.message)
    match error:
        case Invalid():
            return invalid(resource, error)
        case Forbidden(is_quota=True):
            return QuotaExceeded(message=error.message)
        case Forbidden():
            return CreateForbidden(message=error.message)
        case NotFound():
            raise error


def invalid(resource: Resource, error: Invalid) -> Fault:
    """Return what the refusal of an invalid object means for the job."""
    if resource == CONFIGMAPS:
        return NodeListsRefused(message=error.message)
    return TemplateRefused(message=error.message)
