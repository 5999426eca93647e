"""Tell the API server of $KUBECONFIG about the webhook that docker-compose runs on this machine.

Without an argument: install the CRDs, and have the webhook asked by URL. With "remove": take the
webhook configurations away again, after which creating jobs needs no webhook; the CRDs stay, but
jobs are served as the newest version only.
"""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from pathlib import Path
from typing import Any

import yaml

from di_api import names
from di_api.admission_rules import CLUSTER_RULES, MATCH_CONDITIONS
from di_api.crd.conversion import with_conversion
from di_kube.client import KubeClient
from di_kube.config import ConfigError, load_config
from di_kube.errors import ApiError, NotFound
from di_kube.resources import CRDS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from di_kube.wire import APPLY_PATCH
from di_service.settings import Address

NAME = "di-orchestrator-compose"
AUTHORITY = Path("/certs/ca.crt")
DEFINITIONS = Path("/crds")
PORT = 8443


def configuration(
    resource: Resource, *, verb: str, path: str, failure_policy: str, host: str, authority: bytes
) -> dict[str, Any]:
    """A webhook configuration that asks `host`, trusting `authority`; the rest as in the chart."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": NAME},
        "webhooks": [
            {
                "name": f"{verb}.{names.PLURAL}.{names.GROUP}",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": failure_policy,
                "timeoutSeconds": 5,
                "matchPolicy": "Equivalent",
                "rules": CLUSTER_RULES,
                "matchConditions": MATCH_CONDITIONS,
                "clientConfig": client_config(host, path, authority),
            }
        ],
    }


def configurations(host: str, authority: bytes) -> dict[Resource, dict[str, Any]]:
    """The mutating and the validating configuration."""
    mutating = configuration(
        MUTATING_WEBHOOKS,
        verb="default",
        path="/mutate",
        failure_policy="Ignore",
        host=host,
        authority=authority,
    )
    validating = configuration(
        VALIDATING_WEBHOOKS,
        verb="validate",
        path="/validate",
        failure_policy="Fail",
        host=host,
        authority=authority,
    )
    return {MUTATING_WEBHOOKS: mutating, VALIDATING_WEBHOOKS: validating}


def client_config(host: str, path: str, authority: bytes) -> dict[str, Any]:
    """How the API server calls the webhook."""
    return {
        "url": f"https://{Address(host=host.strip('[]'), port=PORT)}{path}",
        "caBundle": base64.b64encode(authority).decode(),
    }


def definition(plural: str) -> dict[str, Any]:
    """The custom resource definition as it stands in its file."""
    body: dict[str, Any] = yaml.safe_load((DEFINITIONS / f"{plural}-crd.yaml").read_text())
    return body


async def apply(client: KubeClient, resource: Resource, body: dict[str, Any]) -> None:
    """Make the object what `body` says."""
    name = body["metadata"]["name"]
    await client.patch(
        resource, name, body, content_type=APPLY_PATCH, field_manager=NAME, force=True
    )
    print(f"{resource.kind} {name} applied")


async def register(client: KubeClient, host: str) -> None:
    """Install or update the CRDs and both configurations."""
    authority = AUTHORITY.read_bytes()
    jobs, aggregators = definition("dijobs"), definition("aggregatorconfigs")
    await apply(client, CRDS, with_conversion(jobs, client_config(host, "/convert", authority)))
    await apply(client, CRDS, aggregators)
    for name in ("dijobtasks", "dijobtemplates", "clusterdijobtemplates"):
        await apply(client, CRDS, definition(name))
    for resource, body in configurations(host, authority).items():
        await apply(client, resource, body)


async def remove(client: KubeClient) -> None:
    """Take both configurations away, if they are there, and the conversion."""
    await apply(client, CRDS, definition("dijobs"))
    for resource in (VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS):
        try:
            await client.delete(resource, NAME)
        except NotFound:
            continue
        print(f"{resource.kind} {NAME} removed")


async def run(arguments: list[str]) -> None:
    """Register the webhook and the definitions, or take them back."""
    async with KubeClient(config=load_config(os.environ["KUBECONFIG"])) as client:
        if arguments == ["remove"]:
            await remove(client)
        elif not arguments:
            await register(client, os.environ["DI_HOST_ADDRESS"])
        else:
            sys.exit("usage: register.py [remove]")


def main() -> None:
    """Exits with 1 and a message when the API server cannot be reached or refuses."""
    try:
        asyncio.run(run(sys.argv[1:]))
    except (ApiError, ConfigError, OSError) as error:
        sys.exit(f"register: {error}")


if __name__ == "__main__":
    main()
