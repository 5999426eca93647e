"""DISweeps on their way into a real API server, past the webhook."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from di_api.names import API_VERSION
from di_kube.config import KubeConfig
from di_kube.errors import Invalid
from di_kube.resources import DISWEEPS
from tests.integration.admitting import call
from tests.integration.conftest import ApiServer
from tests.integration.webhook_process import WebhookProcess, webhook_process
from tests.unit.sweeps.sweeps import LR, sweep

pytestmark = pytest.mark.usefixtures("crd", "sweeps", "admission")


@pytest.fixture
def webhook(api_server: ApiServer, tmp_path: Path) -> Iterator[WebhookProcess]:
    with webhook_process(tmp_path, api_server.host_address) as running:
        yield running


def manifest(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, **sweep(**spec)}


@pytest.mark.proves("sweeps.md#in-a-cluster")
def test_the_api_server_refuses_a_sweep_with_the_path_of_its_fault(
    kube_config: KubeConfig, namespace: str
) -> None:
    bad = {**LR, "name": "n", "field": "tasks[7].replicas", "argument": None}
    with pytest.raises(Invalid, match=r"spec\.parameters\[1\]\.field"):
        call(
            kube_config,
            lambda client: client.create(DISWEEPS, manifest(parameters=[LR, bad]), namespace),
        )
    call(kube_config, lambda client: client.create(DISWEEPS, manifest(), namespace))
    stop = {"spec": {"stop": True}}
    found = call(kube_config, lambda client: client.patch(DISWEEPS, "tune", stop, namespace))
    assert found["spec"]["stop"] is True
    with pytest.raises(Invalid, match=r"spec\.parameters\[0\]"):
        call(
            kube_config,
            lambda client: client.patch(
                DISWEEPS, "tune", {"spec": {"parameters": [{"name": "lr"}]}}, namespace
            ),
        )
