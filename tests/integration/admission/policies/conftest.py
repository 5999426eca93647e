"""The accounts of the services, and of others, beside objects of jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from di_kube.config import KubeConfig
from di_kube.resources import DIJOBS, PODS
from di_kube.sync import SyncKubeClient
from tests.integration.accounts import Accounts, installed_accounts
from tests.integration.admission.policies.objects import (
    COORDINATED,
    EXPIRED,
    FINISHED,
    OBJECTS,
    WORKING,
    named,
    owned_by,
)
from tests.integration.conftest import ApiServer, definition, fresh_namespace, install_crd
from tests.waiting import wait_until

Object = dict[str, Any]


@pytest.fixture(scope="package")
def accounts(
    api_server: ApiServer,
    kube_config: KubeConfig,
    crd: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Accounts]:
    asyncio.run(install_crd(kube_config, definition("aggregatorconfigs-crd")))
    with fresh_namespace(kube_config) as namespace:
        folder = tmp_path_factory.mktemp("accounts")
        value = "operator.suspectTaintPercent=10"
        with installed_accounts(api_server, namespace, folder, value) as accounts:
            _fill(kube_config, namespace)
            yield accounts


def _fill(config: KubeConfig, namespace: str) -> None:
    """Jobs in several states, an object of each kind that belongs to one, and one that does not."""
    with SyncKubeClient(config=config) as kube:
        for body in (WORKING, COORDINATED, FINISHED, EXPIRED):
            made = kube.create(DIJOBS, body, namespace)
            phase = "Running" if body in (WORKING, COORDINATED) else "Succeeded"
            status = {"status": {"phase": phase, "restarts": 1, "profilings": {"a": 1}}}
            name = body["metadata"]["name"]
            kube.patch(DIJOBS, name, status, namespace, subresource="status")
            if body is WORKING:
                owned = owned_by(made)
        for resource, spec in OBJECTS.items():
            kube.create(resource, named("owned", owned) | spec, namespace)
            kube.create(resource, named("foreign", {"labels": owned["labels"]}) | spec, namespace)
            # Somebody took the label, or made it before there were labels.
            kube.create(resource, named("bare", owned | {"labels": {}}) | spec, namespace)


@pytest.fixture(scope="package")
def pod_maker(accounts: Accounts) -> str:
    """An account of somebody who may make and change pods, and nothing about DIJobs."""
    name, kubectl = "pod-maker", accounts.kubectl
    here = ("--namespace", accounts.namespace)
    kubectl(*here, "create", "serviceaccount", name)
    kubectl(*here, "create", "role", name, "--verb=create,get,patch", "--resource=pods")
    account = f"--serviceaccount={accounts.namespace}:{name}"
    kubectl(*here, "create", "rolebinding", name, f"--role={name}", account)
    path = PODS.path(accounts.namespace, "owned")
    what = "the account to have its role"
    wait_until(lambda: accounts.objection(name, "GET", path) == "", what=what)
    return name
