"""Webhook configurations and admission policies."""

from __future__ import annotations

import base64
import re

import pytest
import yaml

from di_api.admission_rules import ADMISSION_RULES, CLUSTER_RULES, MATCH_CONDITIONS
from di_operator.certificates.rotation import CA_CERTIFICATE
from tests.chart.chart import CHART, GIVEN_SECRETS, Chart, Object, Rendered

KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def webhook(chart: Chart, kind: str, *values: str) -> Object:
    (found,) = chart.render(*values).one(kind, "di-di-orchestrator")["webhooks"]
    assert isinstance(found, dict)
    return found


def test_creates_and_updates_of_jobs_templates_and_sweeps_are_reviewed() -> None:
    assert ADMISSION_RULES == [
        {
            "apiGroups": ["diengine.opendilab.org"],
            "apiVersions": ["v2alpha1"],
            "resources": ["dijobs", "dijobtemplates", "disweeps"],
            "operations": ["CREATE", "UPDATE"],
            "scope": "Namespaced",
        }
    ]
    (cluster,) = (each for each in CLUSTER_RULES if each not in ADMISSION_RULES)
    assert (cluster["resources"], cluster["scope"]) == (["clusterdijobtemplates"], "Cluster")


@pytest.mark.parametrize("kind", KINDS)
def test_a_release_for_a_namespace_reviews_no_objects_of_the_cluster(
    chart: Chart, kind: str
) -> None:
    scope = ("watchNamespace=rl", "rbac.allowClusterRoles=true")
    assert webhook(chart, kind, *GIVEN_SECRETS, *scope)["rules"] == ADMISSION_RULES


@pytest.mark.parametrize("kind", KINDS)
def test_with_the_operators_certificates_the_chart_renders_no_rules(
    chart: Chart, kind: str
) -> None:
    assert "rules" not in webhook(chart, kind)


@pytest.mark.proves(
    "operations.md#values/certificates-mode", "operations.md#certificates/existingsecret"
)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", [("certificates.mode=cert-manager",), GIVEN_SECRETS])
def test_other_certificate_modes_render_the_rules(
    chart: Chart, kind: str, mode: tuple[str, ...]
) -> None:
    assert webhook(chart, kind, *mode)["rules"] == CLUSTER_RULES


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", [(), GIVEN_SECRETS])
def test_changes_of_nothing_that_is_judged_are_not_reviewed(
    chart: Chart, kind: str, mode: tuple[str, ...]
) -> None:
    assert webhook(chart, kind, *mode)["matchConditions"] == MATCH_CONDITIONS


def test_the_webhook_waits_for_the_published_authority(chart: Chart) -> None:
    rendered = chart.render()
    # Neither data nor binaryData: helm owns no field that the operator writes.
    assert rendered.one("ConfigMap", "di-webhook-admission").keys() == {
        "apiVersion",
        "kind",
        "metadata",
    }
    spec = rendered.pods()["di-webhook"]["spec"]
    (volume,) = (each for each in spec["volumes"] if "configMap" in each)
    # Not optional, and with a key of its own: the kubelet starts no container before it exists.
    assert volume["configMap"] == {
        "name": "di-webhook-admission",
        "items": [{"key": CA_CERTIFICATE, "path": CA_CERTIFICATE}],
    }
    (container,) = spec["containers"]
    assert volume["name"] in {mount["name"] for mount in container["volumeMounts"]}


@pytest.mark.parametrize(
    "values",
    [("certificates.mode=cert-manager",), GIVEN_SECRETS, ("webhook.enabled=false",)],
    ids=["cert-manager", "given Secrets", "no webhook"],
)
def test_in_other_modes_the_webhook_does_not_wait(chart: Chart, values: tuple[str, ...]) -> None:
    rendered = chart.render(*values)
    assert "di-webhook-admission" not in rendered.of_kind("ConfigMap")
    volumes = rendered.pods().get("di-webhook", {"spec": {"volumes": []}})["spec"]["volumes"]
    assert not [each for each in volumes if "configMap" in each]
    (policy,) = (
        policy
        for name, policy in rendered.of_kind("ValidatingAdmissionPolicy").items()
        if name.endswith("operator-objects")
    )
    assert "di-webhook-admission" not in str(policy)


@pytest.mark.parametrize(
    ("kind", "policy", "path"),
    [(KINDS[0], "Ignore", "/mutate"), (KINDS[1], "Fail", "/validate")],
    ids=["a default may be missing", "an unchecked job may not pass"],
)
def test_the_failure_policy_of_each_webhook(
    chart: Chart, kind: str, policy: str, path: str
) -> None:
    found = webhook(chart, kind)
    assert found["failurePolicy"] == policy
    assert found["timeoutSeconds"] == 5
    assert found["sideEffects"] == "None"
    service = chart.render().one("Service", "di-webhook")
    assert found["clientConfig"]["service"] == {
        "name": "di-webhook",
        "namespace": service["metadata"]["namespace"],
        "path": path,
        "port": service["spec"]["ports"][0]["port"],
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["auto", "cert-manager"])
def test_the_chart_sets_no_authority_that_others_create(chart: Chart, kind: str, mode: str) -> None:
    found = webhook(chart, kind, f"certificates.mode={mode}", "certificates.caBundle=")
    assert "caBundle" not in found["clientConfig"]


@pytest.mark.proves("operations.md#certificates/existingsecret")
@pytest.mark.parametrize("kind", KINDS)
def test_a_given_authority_is_published(chart: Chart, kind: str) -> None:
    pem = "-----BEGIN CERTIFICATE-----"
    found = webhook(chart, kind, *GIVEN_SECRETS, f"certificates.caBundle={pem}")
    assert base64.b64decode(found["clientConfig"]["caBundle"]).decode() == pem


def injected_from(rendered: Rendered) -> set[str]:
    """The Certificates whose authority the API server trusts when it calls the webhook."""
    called = [rendered.one(kind, "di-di-orchestrator") for kind in KINDS]
    called.append(rendered.one("CustomResourceDefinition", "dijobs.diengine.opendilab.org"))
    return {o["metadata"]["annotations"]["cert-manager.io/inject-ca-from"] for o in called}


@pytest.mark.proves(
    "operations.md#certificates/cert-manager", "operations.md#values/certificates-mode"
)
def test_cert_manager_creates_a_trusted_authority(chart: Chart) -> None:
    rendered = chart.render("certificates.mode=cert-manager", "certificates.secretName=tls")
    certificates = rendered.of_kind("Certificate")
    issuers = {name: issuer["spec"] for name, issuer in rendered.of_kind("Issuer").items()}
    authority = certificates["di-webhook-ca"]["spec"]
    leaves = {name: certificates[name]["spec"] for name in ("di-webhook", "di-server")}
    # A renewed leaf is of the same authority, and that is what the API server and pods trust.
    assert [leaf["secretName"] for leaf in leaves.values()] == ["tls", "di-server-tls"]
    assert "di-webhook.di-system.svc" in leaves["di-webhook"]["dnsNames"]
    assert "di-server.di-system.svc.cluster.local" in leaves["di-server"]["dnsNames"]
    for leaf in leaves.values():
        assert "isCA" not in leaf
        assert leaf["issuerRef"] == {
            "group": "cert-manager.io",
            "kind": "Issuer",
            "name": "di-webhook-ca",
        }
    assert issuers["di-webhook-ca"] == {"ca": {"secretName": authority["secretName"]}}
    assert injected_from(rendered) == {"di-system/di-webhook-ca"}
    # A renewed authority has the key of the one before.
    assert authority["isCA"] is True
    assert authority["commonName"]
    assert authority["privateKey"]["rotationPolicy"] == "Never"
    assert issuers[authority["issuerRef"]["name"]] == {"selfSigned": {}}
    assert authority["secretName"] not in ("tls", "tls-ca")
    assert set(issuers) == {"di-webhook", "di-webhook-ca"}
    assert set(certificates) == {"di-webhook", "di-server", "di-webhook-ca"}


@pytest.mark.parametrize(
    ("off", "left"),
    [
        (("webhook.enabled=false",), {"di-server", "di-webhook-ca"}),
        (("server.tls.enabled=false",), {"di-webhook", "di-webhook-ca"}),
        (("server.enabled=false",), {"di-webhook", "di-webhook-ca"}),
        (("webhook.enabled=false", "server.tls.enabled=false"), set()),
    ],
)
def test_cert_manager_creates_certificates_of_enabled_services(
    chart: Chart, off: tuple[str, ...], left: set[str]
) -> None:
    rendered = chart.render("certificates.mode=cert-manager", *off)
    assert set(rendered.of_kind("Certificate")) == left


def test_a_given_issuer_is_used(chart: Chart) -> None:
    rendered = chart.render(
        "certificates.mode=cert-manager",
        "certificates.issuer.name=corporate",
        "certificates.issuer.kind=ClusterIssuer",
    )
    assert not rendered.of_kind("Issuer")
    assert set(rendered.of_kind("Certificate")) == {"di-webhook", "di-server"}
    for certificate in rendered.of_kind("Certificate").values():
        issuer = certificate["spec"]["issuerRef"]
        assert (issuer["kind"], issuer["name"]) == ("ClusterIssuer", "corporate")
    assert injected_from(rendered) == {"di-system/di-webhook"}


@pytest.mark.parametrize("kind", KINDS)
def test_webhooks_select_the_watched_namespace(chart: Chart, kind: str) -> None:
    assert "namespaceSelector" not in webhook(chart, kind)
    found = webhook(chart, kind, "watchNamespace=team", "rbac.allowClusterRoles=true")
    assert found["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "team"}}


POLICIES = {
    "operator-objects": [
        *("pods", "services", "configmaps", "dijobtasks", "workloads", "persistentvolumeclaims"),
        "poddisruptionbudgets",
    ],
    "operator-pods": ["pods"],
    "operator-jobs": ["dijobs"],
    "operator-replicas": ["dijobs"],
    "operator-names": ["secrets", "leases", "aggregatorconfigs"],
    "operator-definition": ["customresourcedefinitions"],
    "server-jobs": ["dijobs"],
    "server-profilings": ["dijobs/status"],
}


def test_every_policy_is_bound_and_about_one_account(chart: Chart) -> None:
    rendered = chart.render(namespace="elsewhere")
    policies = rendered.of_kind("ValidatingAdmissionPolicy")
    assert {
        name.removeprefix("di-di-orchestrator-"): [
            resource
            for rule in policy["spec"]["matchConstraints"]["resourceRules"]
            for resource in rule["resources"]
        ]
        for name, policy in policies.items()
    } == POLICIES
    for name, policy in policies.items():
        assert policy["spec"]["failurePolicy"] == "Fail"
        (condition,) = policy["spec"]["matchConditions"]
        account = f"di-{name.split('-')[-2]}"
        # All but one are about what the account does, that one about what everybody else does.
        sign = "!=" if name.endswith("operator-pods") else "=="
        assert condition["expression"] == (
            f"request.userInfo.username {sign} 'system:serviceaccount:elsewhere:{account}'"
        )
    bindings = rendered.of_kind("ValidatingAdmissionPolicyBinding")
    assert {name: binding["spec"] for name, binding in bindings.items()} == {
        name: {"policyName": name, "validationActions": ["Deny"]} for name in policies
    }


@pytest.mark.proves("operations.md#values/admissionpolicies-enabled")
@pytest.mark.parametrize(
    ("values", "left"),
    [
        (("admissionPolicies.enabled=false",), ""),
        (("watchNamespace=team", *GIVEN_SECRETS), ""),
        (("watchNamespace=team", "rbac.allowClusterRoles=true"), " ".join(POLICIES)),
        (("server.enabled=false",), " ".join(p for p in POLICIES if "operator" in p)),
        (
            ("operator.jobTasks=false", "operator.kueue.enabled=false"),
            " ".join(p for p in POLICIES if p != "operator-replicas"),
        ),
        (("operator.sweeps=true",), " ".join([*POLICIES, "operator-trials"])),
        (("operator.enabled=false", *GIVEN_SECRETS), "server-jobs server-profilings"),
        (
            (
                "operator.jobTasks=false",
                "operator.kueue.enabled=false",
                "operator.suspendIdleJobs=true",
            ),
            " ".join(POLICIES),
        ),
        (
            (
                "operator.jobTasks=false",
                "operator.kueue.enabled=false",
                "operator.scaleDownIdleJobs=true",
            ),
            " ".join(POLICIES),
        ),
        (GIVEN_SECRETS, " ".join(p for p in POLICIES if p != "operator-definition")),
    ],
    ids=[
        "turned off",
        "nothing may belong to the whole cluster",
        "cluster roles are allowed",
        "no server",
        "neither tasks on their own nor queues",
        "sweeps",
        "no operator",
        "idle jobs are suspended",
        "idle jobs are scaled down",
        "somebody else publishes the authority",
    ],
)
def test_the_policies_follow_the_values(chart: Chart, values: tuple[str, ...], left: str) -> None:
    rendered = chart.render(*values)
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        found = {name.removeprefix("di-di-orchestrator-") for name in rendered.of_kind(kind)}
        assert found == set(left.split())


BARE = ("webhook.enabled=false", *GIVEN_SECRETS)


@pytest.mark.proves("operations.md#values/admissionpolicies-jobs")
@pytest.mark.parametrize(
    ("values", "is_there"),
    [
        ((), False),
        (BARE, True),
        (("admissionPolicies.jobs=Always",), True),
        ((*BARE, "admissionPolicies.jobs=Never"), False),
        ((*BARE, "admissionPolicies.enabled=false"), False),
        ((*BARE, "watchNamespace=team"), False),
    ],
    ids=["webhook", "no webhook", "always", "never", "no policies", "no cluster roles"],
)
def test_the_rules_of_jobs_stand_in_for_the_webhook(
    chart: Chart, values: tuple[str, ...], is_there: bool
) -> None:
    rendered = chart.render(*values)
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        assert ("di-di-orchestrator-jobs" in rendered.of_kind(kind)) == is_there


def test_the_rules_of_jobs_are_those_of_the_file(chart: Chart) -> None:
    policy, binding = yaml.safe_load_all((CHART / "files/dijobs-policy.yaml").read_text())
    name = "di-di-orchestrator-jobs"
    rendered = chart.render(*BARE)
    assert rendered.one("ValidatingAdmissionPolicy", name)["spec"] == policy["spec"]
    bound = rendered.one("ValidatingAdmissionPolicyBinding", name)["spec"]
    assert bound == {**binding["spec"], "policyName": name}
    narrow = chart.render(*BARE, "watchNamespace=team", "rbac.allowClusterRoles=true")
    selected = narrow.one("ValidatingAdmissionPolicyBinding", name)["spec"]["matchResources"]
    labels = {"kubernetes.io/metadata.name": "team"}
    assert selected == {"namespaceSelector": {"matchLabels": labels}}


@pytest.mark.parametrize(
    ("values", "secrets"),
    [
        ((), ("tls", "tls-ca", "di-server-tls")),
        (("history.enabled=true",), ("tls", "tls-ca", "di-server-tls", "di-history-tls")),
        (("server.tls.enabled=false",), ("tls", "tls-ca")),
        (("webhook.enabled=false", "server.tls.secretName=mine"), ("mine", "tls-ca")),
        (GIVEN_SECRETS, ()),
    ],
    ids=[
        "makes certificates",
        "of the history too",
        "of the webhook alone",
        "of the server alone",
        "makes none",
    ],
)
def test_the_operator_may_create_these_names(
    chart: Chart, values: tuple[str, ...], secrets: tuple[str, ...]
) -> None:
    rendered = chart.render("certificates.secretName=tls", "aggregatorConfig.name=mine", *values)
    policy = rendered.one("ValidatingAdmissionPolicy", "di-di-orchestrator-operator-names")
    (validation,) = policy["spec"]["validations"]
    found = set(re.findall(r"'([a-z]+/[a-z-]+)'", validation["expression"]))
    wanted = {"leases/di-operator", "leases/di-operator-scope", "aggregatorconfigs/mine"}
    wanted |= {"secrets/di-job-secrets"}
    assert found == wanted | {f"secrets/{name}" for name in secrets}


def test_the_operator_may_change_only_the_conversions_authority(chart: Chart) -> None:
    policy = chart.render().one(
        "ValidatingAdmissionPolicy", "di-di-orchestrator-operator-definition"
    )
    text = policy["spec"]["validations"][0]["expression"]
    kept = re.findall(r"&& object\.spec\.\?conversion\.\?(\S+) == oldObject", text)
    assert [path.replace("?", "") for path in kept] == [
        "strategy",
        "webhook.conversionReviewVersions",
        "webhook.clientConfig.service",
        "webhook.clientConfig.url",
    ]
