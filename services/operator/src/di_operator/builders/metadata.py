"""Metadata of every object of a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from di_api import names


def owner_reference(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the owner reference to the job as controller; its UID excludes earlier jobs of the
    same name.
    """
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def job_labels(job: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels that select all objects of the job."""
    return {
        names.LABEL_JOB: job["metadata"]["name"],
        names.LABEL_OPERATOR: names.OPERATOR_NAME,
    }


def object_metadata(job: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the metadata of an object of the job."""
    return {
        "name": name,
        "namespace": job["metadata"]["namespace"],
        "labels": job_labels(job),
        "ownerReferences": [owner_reference(job)],
    }
