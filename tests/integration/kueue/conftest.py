"""An API server of its own with Kueue beside it: what it registers concerns no other test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from di_kube.config import KubeConfig
from tests.integration.admitting import admitting
from tests.integration.conftest import fresh_namespace
from tests.integration.kueue.installation import KueueServer, kueue_api_server
from tests.integration.kueue.process import KueueProcess
from tests.integration.webhook_process import WebhookProcess, webhook_process


@pytest.fixture(scope="package")
def kueue_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KueueServer]:
    """Kueue runs; a test that ends it starts it again."""
    with kueue_api_server("kueue", tmp_path_factory.mktemp("kueue")) as server:
        yield server


@pytest.fixture
def kube_config(kueue_server: KueueServer) -> KubeConfig:
    """The administrator's access to that API server."""
    return kueue_server.config


@pytest.fixture
def kueue(kueue_server: KueueServer) -> KueueProcess:
    return kueue_server.kueue


@pytest.fixture
def namespace(kube_config: KubeConfig) -> Iterator[str]:
    """A fresh namespace there."""
    with fresh_namespace(kube_config) as name:
        yield name


@pytest.fixture(scope="package")
def webhook(
    kueue_server: KueueServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WebhookProcess]:
    """di-webhook, for that API server."""
    folder = tmp_path_factory.mktemp("webhook")
    with webhook_process(folder, kueue_server.cluster.host_address) as running:
        yield running


@pytest.fixture
def admission(webhook: WebhookProcess, kube_config: KubeConfig, namespace: str) -> Iterator[None]:
    """The webhook, registered for the test's namespace and seen by the API server."""
    with admitting(webhook, kube_config, namespace):
        yield
