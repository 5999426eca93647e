"""Each service may do what it does and nothing else."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.chart.chart import GIVEN_SECRETS, Chart, Rendered

DIJOBS = "dijobs.diengine.opendilab.org"
CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
JOBS_OF_THE_OPERATOR = {
    DIJOBS: "delete get list patch watch",
    "dijobtasks.diengine.opendilab.org": "create delete get list patch watch",
    "dijobtasks/status.diengine.opendilab.org": "patch",
    "dijobs/status.diengine.opendilab.org": "patch update",
    "dijobs/finalizers.diengine.opendilab.org": "update",
    "pods": "create delete get list patch watch",
    "services": "create delete get list patch watch",
    "configmaps": "create delete get list patch update watch",
    "persistentvolumeclaims": "create get",
    "poddisruptionbudgets.policy": "create get patch",
    "events": "create get patch",
    "leases.coordination.k8s.io di-operator-scope": "list",
}
# The claim on the jobs is in their namespace, or in the release's where that is all of them.
CLAIM_IN_ONE_NAMESPACE = {
    "leases.coordination.k8s.io": "create",
    "leases.coordination.k8s.io di-operator-scope": "list update",
}
CLAIM = {"leases.coordination.k8s.io di-operator-scope": "update"}
RIVALS = {"subjectaccessreviews.authorization.k8s.io": "create"}
JOBS_OF_THE_SERVER = {
    DIJOBS: "get list patch watch",
    "dijobs/status.diengine.opendilab.org": "patch",
    "pods": "get list watch",
}
OWN_OF_THE_SERVER = {"aggregatorconfigs.diengine.opendilab.org": "get list watch"}
OWN = {
    "leases.coordination.k8s.io": "create",
    "leases.coordination.k8s.io di-operator": "get update",
    "aggregatorconfigs.diengine.opendilab.org": "create",
    "aggregatorconfigs.diengine.opendilab.org aggregator-config": "get patch",
    "deployments.apps di-server": "get",
    "secrets": "create",
    "secrets di-job-secrets": "get",
}
CERTIFICATE_SECRETS = {
    "secrets di-webhook-tls": "get list update watch",
    "secrets di-server-tls": "get list update watch",
    "secrets di-webhook-tls-ca": "get list update watch",
}
ADMISSION = {"configmaps di-webhook-admission": "get list patch watch"}
AUTHORITY = {
    f"{kind}.admissionregistration.k8s.io di-di-orchestrator": "get list patch watch"
    for kind in CONFIGURATIONS
} | {f"customresourcedefinitions.apiextensions.k8s.io {DIJOBS}": "get list patch watch"}
OF_KUEUE = {
    "resourceflavors.kueue.x-k8s.io": "list watch",
    "workloadpriorityclasses.kueue.x-k8s.io": "list watch",
}
WORKLOADS = {
    DIJOBS: "delete get list patch watch",
    "workloads.kueue.x-k8s.io": "create delete get list patch watch",
    "workloads/status.kueue.x-k8s.io": "patch",
}
ROOM = {"nodes": "list watch"}
QUOTAS = {"resourcequotas": "list watch"}
TOKENS = {
    "tokenreviews.authentication.k8s.io": "create",
    "subjectaccessreviews.authorization.k8s.io": "create",
}


def permissions(rendered: Rendered, account: str) -> dict[str, dict[str, str]]:
    """{namespace, or "*" for the whole cluster: {resource and object's name: verbs}}."""
    found: dict[str, dict[str, str]] = {}
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        for binding in rendered.of_kind(kind).values():
            if [s["name"] for s in binding["subjects"]] != [account]:
                continue
            role = rendered.one(binding["roleRef"]["kind"], binding["roleRef"]["name"])
            assert role["metadata"].get("namespace") == binding["metadata"].get("namespace")
            where = found.setdefault(binding["metadata"].get("namespace", "*"), {})
            for rule in role["rules"]:
                for key in _keys(rule):
                    assert key not in where, f"{key} is granted twice"
                    where[key] = " ".join(sorted(rule["verbs"]))
    return found


def _keys(rule: Mapping[str, list[str]]) -> list[str]:
    return [
        f"{resource}{'.' if group else ''}{group} {name}".strip()
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
    ]


@pytest.mark.proves(
    "security.md#permissions/webhook",
    "security.md#permissions/operator-*",
    "security.md#permissions/server-*",
)
def test_permissions_in_the_whole_cluster(chart: Chart) -> None:
    rendered = chart.render()
    assert permissions(rendered, "di-operator") == {
        "*": JOBS_OF_THE_OPERATOR | WORKLOADS | OF_KUEUE | RIVALS | AUTHORITY | ROOM | QUOTAS,
        "di-system": OWN | CLAIM | CERTIFICATE_SECRETS | ADMISSION,
    }
    assert permissions(rendered, "di-server") == {
        "*": JOBS_OF_THE_SERVER | TOKENS | ROOM,
        "di-system": OWN_OF_THE_SERVER,
    }
    assert rendered.one("ConfigMap", "di-server")["data"]["DI_SERVER_WATCH_NODES"] == "true"
    assert permissions(rendered, "di-webhook") == {}


@pytest.mark.proves("operations.md#values/operator-suspecttaintpercent")
@pytest.mark.parametrize("policy", ["fit", ""])
def test_nodes_can_be_changed_only_where_suspects_get_a_taint(chart: Chart, policy: str) -> None:
    where = f"operator.allocator.policy={policy}"
    assert "patch" not in permissions(chart.render(where), "di-operator")["*"].get("nodes", "")
    rendered = chart.render(where, "operator.suspectTaintPercent=10")
    verbs = "list patch watch" if policy else "list patch"
    assert permissions(rendered, "di-operator")["*"]["nodes"] == verbs
    data = rendered.one("ConfigMap", "di-operator")["data"]
    assert data["DI_OPERATOR_SUSPECT_TAINT_PERCENT"] == "10"


@pytest.mark.proves("operations.md#values/operator-kueue-enabled")
def test_without_kueue_there_are_no_permissions_for_workloads(chart: Chart) -> None:
    rendered = chart.render("operator.kueue.enabled=false")
    assert permissions(rendered, "di-operator")["*"] == (
        JOBS_OF_THE_OPERATOR | RIVALS | AUTHORITY | ROOM | QUOTAS
    )
    assert rendered.one("ConfigMap", "di-operator")["data"]["DI_OPERATOR_KUEUE"] == "false"


@pytest.mark.proves("operations.md#one-namespace")
def test_permissions_in_one_namespace_are_roles(chart: Chart) -> None:
    rendered = chart.render("watchNamespace=team", *GIVEN_SECRETS)
    assert not {"ClusterRole", "ClusterRoleBinding"} & rendered.kinds()
    assert permissions(rendered, "di-operator") == {
        "team": JOBS_OF_THE_OPERATOR | CLAIM_IN_ONE_NAMESPACE,
        "di-system": OWN | {"secrets given-server-tls": "get list watch"},
    }
    assert permissions(rendered, "di-server") == {
        "team": JOBS_OF_THE_SERVER,
        "di-system": OWN_OF_THE_SERVER,
    }
    assert rendered.one("ConfigMap", "di-server")["data"]["DI_SERVER_WATCH_NODES"] == "false"


def test_an_allowed_cluster_role_has_cluster_permissions_only(chart: Chart) -> None:
    rendered = chart.render("watchNamespace=team", "rbac.allowClusterRoles=true")
    assert permissions(rendered, "di-operator")["*"] == (
        AUTHORITY | ROOM | OF_KUEUE | {"pods": "list watch"}
    )
    assert permissions(rendered, "di-server")["*"] == TOKENS | ROOM
    assert rendered.one("ConfigMap", "di-server")["data"]["DI_SERVER_WATCH_NODES"] == "true"


@pytest.mark.parametrize(
    ("values", "read"),
    [
        (GIVEN_SECRETS, {"secrets given-server-tls": "get list watch"}),
        (("certificates.mode=cert-manager",), {"secrets di-server-tls": "get list watch"}),
        (("certificates.mode=cert-manager", "server.tls.enabled=false"), {}),
    ],
)
def test_in_other_modes_the_operator_reads_the_servers_secret_only(
    chart: Chart, values: tuple[str, ...], read: dict[str, str]
) -> None:
    assert permissions(chart.render(*values), "di-operator") == {
        "*": JOBS_OF_THE_OPERATOR | WORKLOADS | OF_KUEUE | RIVALS | ROOM | QUOTAS,
        "di-system": OWN | CLAIM | read,
    }


def test_in_one_namespace_certificates_need_no_cluster_role(chart: Chart) -> None:
    rendered = chart.render("watchNamespace=team", "webhook.enabled=false")
    assert not {"ClusterRole", "ClusterRoleBinding"} & rendered.kinds()
    assert permissions(rendered, "di-operator")["di-system"] == OWN | {
        key: verbs for key, verbs in CERTIFICATE_SECRETS.items() if "webhook-tls" not in key
    } | {"secrets di-webhook-tls-ca": "get list update watch"}


@pytest.mark.proves(
    "operations.md#values/operator-jobtasks", "operations.md#values/operator-kueue-enabled"
)
def test_without_job_tasks_and_queues_the_operator_changes_no_job(chart: Chart) -> None:
    rendered = chart.render("operator.jobTasks=false", "operator.kueue.enabled=false")
    found = permissions(rendered, "di-operator")["*"]
    assert found[DIJOBS] == "delete get list watch"
    assert not [key for key in found if key.startswith("dijobtasks")]
    assert rendered.one("ConfigMap", "di-operator")["data"]["DI_OPERATOR_JOB_TASKS"] == "false"


@pytest.mark.proves("operations.md#values/operator-suspendidlejobs")
def test_to_suspend_idle_jobs_the_operator_patches_jobs(chart: Chart) -> None:
    others = ("operator.jobTasks=false", "operator.kueue.enabled=false")
    rendered = chart.render(*others, "operator.suspendIdleJobs=true")
    assert permissions(rendered, "di-operator")["*"][DIJOBS] == "delete get list patch watch"
    policies = rendered.of_kind("ValidatingAdmissionPolicy")
    (rule, metadata) = policies["di-di-orchestrator-operator-replicas"]["spec"]["validations"]
    assert rule["message"] == "di-operator may change only spec.suspend of a DIJob"
    assert metadata["message"] == "di-operator may not change the metadata of a DIJob"


@pytest.mark.proves("operations.md#values/operator-scaledownidlejobs")
def test_to_scale_idle_jobs_down_the_operator_patches_replicas(chart: Chart) -> None:
    others = ("operator.jobTasks=false", "operator.kueue.enabled=false")
    rendered = chart.render(*others, "operator.scaleDownIdleJobs=true")
    assert permissions(rendered, "di-operator")["*"][DIJOBS] == "delete get list patch watch"
    policies = rendered.of_kind("ValidatingAdmissionPolicy")
    (rule, metadata) = policies["di-di-orchestrator-operator-replicas"]["spec"]["validations"]
    changes = "replicas and vacant of spec.tasks[*]"
    assert rule["message"] == f"di-operator may change only {changes} of a DIJob"
    assert metadata["message"] == "di-operator may not change the metadata of a DIJob"


@pytest.mark.proves("operations.md#values/operator-sweeps")
def test_with_sweeps_the_operator_creates_jobs_and_reads_sweeps(chart: Chart) -> None:
    usual = permissions(chart.render(), "di-operator")["*"]
    found = permissions(chart.render("operator.sweeps=true"), "di-operator")["*"]
    assert {key: verbs for key, verbs in found.items() if usual.get(key) != verbs} == {
        DIJOBS: "create delete get list patch watch",
        "disweeps.diengine.opendilab.org": "list watch",
        "disweeps/status.diengine.opendilab.org": "patch",
    }


@pytest.mark.parametrize("is_on", [False, True])
def test_users_have_sweeps_where_the_operator_runs_them(chart: Chart, is_on: bool) -> None:
    roles = chart.render(*(["operator.sweeps=true"] if is_on else [])).of_kind("ClusterRole")
    for role, verb in (("view", "watch"), ("edit", "create")):
        rules = roles[f"di-di-orchestrator-{role}"]["rules"]
        found = [rule for rule in rules if "disweeps" in rule["resources"]]
        assert bool(found) is is_on
        assert all(verb in rule["verbs"] for rule in found)


def test_a_foreign_aggregator_config_is_read_only(chart: Chart) -> None:
    rendered = chart.render("aggregatorConfig.create=false", "aggregatorConfig.name=mine")
    found = permissions(rendered, "di-operator")["di-system"]
    about = {key: verbs for key, verbs in found.items() if key.startswith("aggregatorconfigs")}
    assert about == {"aggregatorconfigs.diengine.opendilab.org mine": "get"}


def test_without_an_allocator_the_operator_does_not_read_nodes(chart: Chart) -> None:
    rendered = chart.render("operator.allocator.policy=")
    assert permissions(rendered, "di-operator")["*"] == (
        JOBS_OF_THE_OPERATOR | WORKLOADS | OF_KUEUE | RIVALS | AUTHORITY
    )
    assert rendered.one("ConfigMap", "di-operator")["data"]["DI_OPERATOR_POLICY"] == ""


def test_without_authentication_the_server_reviews_no_tokens(chart: Chart) -> None:
    rendered = chart.render("server.auth.mode=off")
    assert permissions(rendered, "di-server")["*"] == JOBS_OF_THE_SERVER | ROOM


def test_helm_test_may_change_its_own_job_only(chart: Chart) -> None:
    assert permissions(chart.render(), "di-test") == {
        "di-system": {DIJOBS: "create", f"{DIJOBS} di-test-job": "delete get"}
    }


def test_only_clients_of_the_api_server_have_a_token(chart: Chart) -> None:
    rendered = chart.render()
    assert {n: p["spec"]["automountServiceAccountToken"] for n, p in rendered.pods().items()} == {
        "di-webhook": False,
        "di-operator": True,
        "di-server": True,
        "di-test": True,
    }
    accounts = rendered.of_kind("ServiceAccount")
    assert set(accounts) == {"di-webhook", "di-operator", "di-server", "di-test"}
    assert not any(account["automountServiceAccountToken"] for account in accounts.values())


AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"


def test_view_and_edit_roles_include_jobs(chart: Chart) -> None:
    roles = chart.render().of_kind("ClusterRole")
    found = {
        name.removeprefix("di-di-orchestrator-"): (
            {
                key.removeprefix(AGGREGATE)
                for key, value in role["metadata"]["labels"].items()
                if key.startswith(AGGREGATE) and value == "true"
            },
            {key: " ".join(rule["verbs"]) for rule in role["rules"] for key in _keys(rule)},
        )
        for name, role in roles.items()
        if any(key.startswith(AGGREGATE) for key in role["metadata"]["labels"])
    }
    group = "diengine.opendilab.org"
    changes = "create update patch delete deletecollection"
    assert found == {
        "view": (
            {"view"},
            {
                DIJOBS: "get list watch",
                f"dijobs/status.{group}": "get list watch",
                f"aggregatorconfigs.{group}": "get list watch",
                f"dijobtasks.{group}": "get list watch",
                f"dijobtemplates.{group}": "get list watch",
                f"clusterdijobtemplates.{group}": "get list watch",
                f"dijobs/scale.{group}": "get",
                f"dijobtasks/scale.{group}": "get",
            },
        ),
        "edit": (
            {"edit", "admin"},
            {
                DIJOBS: changes,
                f"aggregatorconfigs.{group}": changes,
                f"dijobtemplates.{group}": changes,
                f"dijobs/scale.{group}": "update",
                f"dijobtasks/scale.{group}": "update patch",
            },
        ),
    }


@pytest.mark.proves("job-templates.md#two-kinds/clusterdijobtemplate")
def test_every_user_can_read_templates_of_the_cluster_if_switched_on(chart: Chart) -> None:
    name = "di-di-orchestrator-templates"
    assert name not in chart.render().of_kind("ClusterRole")
    rendered = chart.render("rbac.clusterTemplates=true")
    (rule,) = rendered.one("ClusterRole", name)["rules"]
    assert (rule["resources"], rule["verbs"]) == (
        ["clusterdijobtemplates"],
        ["get", "list", "watch"],
    )
    (subject,) = rendered.one("ClusterRoleBinding", name)["subjects"]
    assert subject["name"] == "system:authenticated"
    assert rendered.one("ClusterRoleBinding", name)["roleRef"]["name"] == name


@pytest.mark.parametrize(
    "values",
    [("rbac.aggregateRoles=false",), ("watchNamespace=team", *GIVEN_SECRETS)],
    ids=["turned off", "nothing may belong to the whole cluster"],
)
def test_view_and_edit_roles_can_be_left_out(chart: Chart, values: tuple[str, ...]) -> None:
    roles = chart.render(*values).of_kind("ClusterRole")
    assert not {name for name in roles if name.endswith(("-view", "-edit"))}
