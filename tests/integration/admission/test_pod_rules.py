"""The library and the API server agree about pods: by a dry run of each template."""

from __future__ import annotations

from typing import Any

import pytest

from di_kube.config import KubeConfig
from di_kube.errors import ApiError, Invalid
from di_kube.resources import PODS
from tests.integration.admitting import call
from tests.unit.api.pod_cases import BAD, ODD, of_case


def dry_run(config: KubeConfig, namespace: str, template: dict[str, Any]) -> ApiError | None:
    """What the API server has against a pod."""
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], "name": "tried", "namespace": namespace},
        "spec": {**template["spec"], "restartPolicy": "Never"},
    }
    try:
        call(config, lambda client: client.create(PODS, body, namespace, dry_run=True))
    except Invalid as error:
        return error
    return None


@pytest.mark.parametrize("name", BAD)
def test_the_api_server_refuses_such_a_pod(
    name: str, kube_config: KubeConfig, namespace: str
) -> None:
    assert dry_run(kube_config, namespace, of_case(BAD[name])) is not None


@pytest.mark.parametrize("name", ODD)
def test_the_api_server_takes_an_odd_pod(
    name: str, kube_config: KubeConfig, namespace: str
) -> None:
    assert dry_run(kube_config, namespace, of_case(ODD[name])) is None
