from __future__ import annotations

from collections.abc import Iterator

import pytest

from di_kube.config import KubeConfig
from tests.integration.admitting import admitting
from tests.integration.webhook_process import WebhookProcess


@pytest.fixture
def admission(
    webhook: WebhookProcess, kube_config: KubeConfig, namespace: str
) -> Iterator[WebhookProcess]:
    """The webhook of the file, registered for the test's namespace and seen by the API server."""
    with admitting(webhook, kube_config, namespace):
        yield webhook
