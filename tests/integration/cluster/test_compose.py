"""What docker-compose tells the API server, and takes back."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from compose import register
from di_api import names
from di_certs.authority import Authority
from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.errors import NotFound
from di_kube.resources import CRDS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from tests.integration.conftest import CRD_FILE

CERTIFICATE = Authority.create(
    "test", now=datetime.now(UTC), lifetime=timedelta(days=1)
).certificate_pem


@pytest.mark.proves("operations.md#without-the-chart")
def test_the_webhook_is_registered_and_taken_away_again(
    kube_config: KubeConfig, crd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_bytes(CERTIFICATE)
    monkeypatch.setattr(register, "AUTHORITY", authority)
    monkeypatch.setattr(register, "DEFINITIONS", CRD_FILE.parent)

    async def served(client: KubeClient) -> dict[str, Any]:
        spec = (await client.get(CRDS, crd))["spec"]
        return {v["name"]: v["served"] for v in spec["versions"]} | {"by": spec["conversion"]}

    async def scenario() -> None:
        async with KubeClient(config=kube_config) as client:
            await register.register(client, "127.0.0.1")
            try:
                found = await served(client)
                called = found["by"]["webhook"]["clientConfig"]
                assert called["url"] == "https://127.0.0.1:8443/convert"
                assert base64.b64decode(called["caBundle"]) == CERTIFICATE
                assert all(found[version] for version in names.COORDINATED_VERSIONS)
                for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
                    await client.get(resource, register.NAME)
            finally:
                await register.remove(client)
            found = await served(client)
            assert found["by"] == {"strategy": "None"}
            assert [v for v in (names.VERSION, *names.COORDINATED_VERSIONS) if found[v]] == [
                names.VERSION
            ]
            for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
                with pytest.raises(NotFound):
                    await client.get(resource, register.NAME)

    asyncio.run(scenario())
