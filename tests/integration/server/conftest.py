from __future__ import annotations

from collections.abc import Iterator

import pytest

from di_kube.config import KubeConfig
from di_kube.sync import SyncKubeClient


@pytest.fixture
def kube(kube_config: KubeConfig) -> Iterator[SyncKubeClient]:
    with SyncKubeClient(config=kube_config) as kube:
        yield kube
