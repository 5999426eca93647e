"""CustomResourceDefinitions of the candidates."""

from __future__ import annotations

from pathlib import Path

import yaml

from di_kube.client import KubeClient
from di_kube.resources import CRDS
from di_kube.wire import APPLY_PATCH


async def apply_definition(client: KubeClient, path: Path) -> None:
    """Apply the CustomResourceDefinition in a file."""
    body = yaml.safe_load(path.read_text())
    name = body["metadata"]["name"]
    await client.patch(
        CRDS, name, body, content_type=APPLY_PATCH, field_manager="benchmark", force=True
    )
