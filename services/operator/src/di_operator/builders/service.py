"""The headless Service that gives a job's pods their DNS names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from di_api import names
from di_operator.builders.metadata import job_labels, object_metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRecipe:
    """The Service of a job that is not built yet."""

    job: Mapping[str, Any]

    def build(self) -> dict[str, Any]:
        """Return the Service's body."""
        return service_body(self.job)


def service_body(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Service of a job.

    Addresses are published before pods are ready, because pods resolve each other while they start.
    The target port is a name, so the SRV record follows a template that moves ``di-port``.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": object_metadata(job, names.service_name(job["metadata"]["name"])),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": job_labels(job),
            "ports": [
                {
                    "name": names.DI_PORT_NAME,
                    "port": names.DI_PORT,
                    "protocol": "TCP",
                    "targetPort": names.DI_PORT_NAME,
                }
            ],
        },
    }
