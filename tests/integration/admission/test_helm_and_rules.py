"""helm and the operator's leader write the same webhook configurations without a conflict."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from di_api import names
from di_api.admission_rules import ADMISSION_RULES
from di_certs.authority import Authority
from di_cluster.commands import run
from di_kube.config import KubeConfig
from di_kube.resources import (
    CONFIGMAPS,
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from di_kube.sync import SyncKubeClient
from di_kube.wire import JSON_PATCH
from di_operator.certificates.ca_bundles import admission_patch
from di_operator.certificates.rotation import CertificateSettings
from tests.chart.chart import CHART, GIVEN_SECRETS
from tests.integration.conftest import ApiServer

CONFIGURATIONS = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
AUTHORITY = Authority.create(
    "test", now=datetime.now(UTC), lifetime=timedelta(days=1)
).certificate_pem
# As an earlier chart rendered them in every mode.
WITH_RULES = GIVEN_SECRETS
WITHOUT_RULES = ("certificates.mode=auto",)


def test_upgrade_and_rollback_leave_the_rules_to_the_operator(
    api_server: ApiServer, kube_config: KubeConfig, namespace: str
) -> None:
    def helm(*arguments: str) -> None:
        program = (api_server.binary("helm"), "--kubeconfig", api_server.kubeconfig)
        run([*program, "--namespace", namespace, *arguments], seconds=120)

    def install(*values: str) -> None:
        # One namespace: the webhook does not run, and would fail requests in all others.
        scope = (f"watchNamespace={namespace}", "rbac.allowClusterRoles=true")
        given = [f"--set={value}" for value in ("crds.enabled=false", *scope, *values)]
        # No node runs the pods.
        helm("upgrade", "--install", name, str(CHART), "--wait=hookOnly", *given)

    def webhooks(resource: Resource) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = kube.get(resource, name)["webhooks"]
        return found

    def rules() -> list[object]:
        return [each.get("rules") for kind in CONFIGURATIONS for each in webhooks(kind)]

    def bundles() -> set[bool]:
        every = [each for kind in CONFIGURATIONS for each in webhooks(kind)]
        return {"caBundle" in each["clientConfig"] for each in every}

    def publish() -> None:
        """What the operator's leader does."""
        settings = CertificateSettings(
            namespace=namespace, authority_secret="ca", leaves=(), configuration=name
        )
        for resource in CONFIGURATIONS:
            patch = admission_patch(resource, kube.get(resource, name), AUTHORITY, settings)
            kube.patch(
                resource,
                name,
                patch,
                content_type=JSON_PATCH,
                field_manager=names.OPERATOR_NAME,
            )

    # The chart names the configurations after a release whose name contains its own.
    name = f"di-orchestrator-{namespace}"
    published = [ADMISSION_RULES] * len(CONFIGURATIONS)
    with SyncKubeClient(config=kube_config) as kube:
        install(*WITH_RULES)
        try:
            assert rules() == published
            install(*WITHOUT_RULES)
            assert rules() == [None, None]
            publish()
            confirmed = {"data": {"ca.crt": AUTHORITY.decode()}}
            admission = ("di-webhook-admission", confirmed, namespace)
            kube.patch(CONFIGMAPS, *admission, field_manager=names.OPERATOR_NAME)
            install(*WITHOUT_RULES, "webhook.logLevel=debug")
            assert (rules(), bundles()) == (published, {True})
            assert kube.get(CONFIGMAPS, "di-webhook-admission", namespace)["data"]
            helm("rollback", name, "1", "--wait=hookOnly")
            assert (rules(), bundles()) == (published, {True})
            install(*WITHOUT_RULES)
            assert (rules(), bundles()) == (published, {True})
            # Not the one from before the rollback: the webhook's pods wait again.
            assert "data" not in kube.get(CONFIGMAPS, "di-webhook-admission", namespace)
        finally:
            helm("uninstall", name)
