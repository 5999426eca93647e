"""The file with all objects of the chart is applied by kubectl, and applied again."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from di_api import names
from di_api.admission_rules import ADMISSION_RULES
from di_certs.authority import Authority
from di_cluster.cluster import Cluster
from di_cluster.commands import run
from di_kube.config import load_config
from di_kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from di_kube.sync import SyncKubeClient
from di_kube.wire import JSON_PATCH
from di_operator.certificates.ca_bundles import admission_patch
from di_operator.certificates.rotation import CertificateSettings
from tests.failures.clusters import running
from tests.waiting import wait_until
from tools.release.bundle import CHART
from tools.release.objects import NAMESPACE, CannotRender, rendered
from tools.release.version import ROOT

CONFIGURATIONS = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
CLUSTER_SCOPED = ("Cluster", "CustomResource", "Mutating", "Validating", "Namespace", "Priority")
Object = Mapping[str, Any]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("deploy") / "di-orchestrator.yaml"
    made.write_text(rendered(ROOT / CHART, Cluster().binary("helm")))
    return made


@pytest.fixture
def own_server() -> Iterator[Cluster]:
    """An API server that no other test installs something in."""
    with running(Cluster(f"test-{secrets.token_hex(3)}", profile="control-plane")) as cluster:
        yield cluster


def test_the_file_has_each_object_once_in_its_namespace(file: Path) -> None:
    found: list[Object] = list(yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader))
    assert (found[0]["kind"], found[0]["metadata"]["name"]) == ("Namespace", NAMESPACE)
    keys = [
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
        for each in found
    ]
    assert len(keys) == len(set(keys))
    lacking = [key for key in keys if key[1] is None and not key[0].startswith(CLUSTER_SCOPED)]
    assert lacking == []
    assert {"Deployment", "CustomResourceDefinition"} <= {kind for kind, _, _ in keys}
    hooks = [each for each in found if "helm.sh/hook" in each["metadata"].get("annotations", {})]
    assert hooks == []


def test_a_chart_that_helm_refuses_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CannotRender, match="Chart"):
        rendered(tmp_path, Cluster().binary("helm"))


@pytest.mark.proves("di-engine.md#its-own-installer/the-services")
def test_the_file_is_created_as_the_launcher_of_di_engine_does(
    file: Path, own_server: Cluster
) -> None:
    """Its OrchestratorLauncher fails at any output on stderr, then waits for a Deployment."""
    kubectl = (own_server.binary("kubectl"), "--kubeconfig", own_server.kubeconfig)
    done = subprocess.run(
        [*kubectl, "create", "--filename", file],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader)
    names = {each["metadata"]["name"] for each in found if each["kind"] == "Deployment"}
    assert (NAMESPACE, "di-webhook" in names) == ("di-system", True)


@pytest.mark.proves("operations.md#without-helm")
def test_the_file_applied_again_leaves_what_the_operator_wrote(
    file: Path, own_server: Cluster
) -> None:
    kubectl = (own_server.binary("kubectl"), "--kubeconfig", own_server.kubeconfig)

    def apply() -> str:
        return run([*kubectl, "apply", "--server-side", "--filename", file], seconds=120)

    def webhooks(kube: SyncKubeClient, resource: Resource) -> list[Object]:
        found: list[Object] = kube.get(resource, "di-orchestrator")["webhooks"]
        return found

    def is_applied() -> bool:
        # Discovery has the kinds of a definition a moment after it was created.
        return "di-operator serverside-applied" in apply()

    wait_until(is_applied)
    authority = Authority.create("test", now=datetime.now(UTC), lifetime=timedelta(days=1))
    settings = CertificateSettings(
        namespace=NAMESPACE, authority_secret="ca", leaves=(), configuration="di-orchestrator"
    )
    with SyncKubeClient(config=load_config(str(own_server.kubeconfig))) as kube:
        for resource in CONFIGURATIONS:
            before = kube.get(resource, "di-orchestrator")
            patch = admission_patch(resource, before, authority.certificate_pem, settings)
            kube.patch(
                resource,
                "di-orchestrator",
                patch,
                content_type=JSON_PATCH,
                field_manager=names.OPERATOR_NAME,
            )
        apply()
        every = [each for kind in CONFIGURATIONS for each in webhooks(kube, kind)]
    assert [each["rules"] for each in every] == [ADMISSION_RULES] * len(every)
    assert all(each["clientConfig"]["caBundle"] for each in every)
