"""What accounts may do to pods of jobs that are not those of the services."""

from __future__ import annotations

import json
from typing import Any

import pytest

from di_api.names import GROUP
from di_kube.config import KubeConfig
from di_kube.resources import CONFIGMAPS, DIJOBS, PODS
from di_kube.sync import SyncKubeClient
from tests.integration.accounts import Accounts
from tests.integration.admission.policies.objects import OTHER_OWNER, OWNED, TEMPLATE, named
from tests.waiting import wait_until

Object = dict[str, Any]

FORGED = {
    "with a job as its controller": (OWNED, False),
    "with a job as its owner that does not control it": (
        {"ownerReferences": [{**OWNED["ownerReferences"][0], "controller": False}]},
        True,
    ),
    "with another controller": ({**OWNED, "ownerReferences": [OTHER_OWNER]}, True),
    "with the labels of a job": ({"labels": OWNED["labels"]}, True),
}


@pytest.mark.proves("security.md#what-an-account-writes/everybody-else")
@pytest.mark.parametrize(("metadata", "taken"), FORGED.values(), ids=FORGED)
def test_who_may_only_make_pods_makes_none_of_a_job(
    accounts: Accounts, pod_maker: str, metadata: Object, taken: bool
) -> None:
    path = PODS.path(accounts.namespace)
    why = accounts.objection(pod_maker, "POST", path, named("new", metadata) | TEMPLATE)
    assert (why == "") if taken else ("only an operator (patch on dijobs/status) or" in why)


@pytest.mark.proves("security.md#what-an-account-writes/everybody-else")
def test_who_may_only_make_pods_gives_none_to_a_job(accounts: Accounts, pod_maker: str) -> None:
    path = PODS.path(accounts.namespace, "foreign")
    given = {"metadata": {"ownerReferences": OWNED["ownerReferences"]}}
    assert "dijobs/scale" in accounts.objection(pod_maker, "PATCH", path, given)
    labelled = {"metadata": {"labels": {"a": "b"}}}
    assert accounts.objection(pod_maker, "PATCH", path, labelled) == ""
    # Also a pod that a job controls, as long as it is the same one.
    owned = PODS.path(accounts.namespace, "owned")
    assert accounts.objection(pod_maker, "PATCH", owned, labelled) == ""


def test_the_operator_of_another_release_makes_pods_of_its_jobs(accounts: Accounts) -> None:
    name, here = "other-operator", ("--namespace", accounts.namespace)
    accounts.kubectl(*here, "create", "serviceaccount", name)
    accounts.kubectl(*here, "create", "role", name, "--verb=create", "--resource=pods")
    # What the chart's role for jobs has beside it, and people do not have.
    status = f"--resource=dijobs.{GROUP}/status"
    accounts.kubectl(*here, "create", "role", f"{name}-status", "--verb=patch", status)
    account = f"--serviceaccount={accounts.namespace}:{name}"
    path, body = PODS.path(accounts.namespace), named("new", OWNED) | TEMPLATE
    accounts.kubectl(*here, "create", "rolebinding", name, f"--role={name}", account)
    wait_until(
        lambda: "dijobs/scale" in accounts.objection(name, "POST", path, body),
        what="an account that makes pods to be refused",
    )
    accounts.kubectl(*here, "create", "rolebinding", "status", f"--role={name}-status", account)
    what = "the pod of a job to be admitted"
    wait_until(lambda: accounts.objection(name, "POST", path, body) == "", what=what)


def test_who_may_scale_jobs_may_put_back_whose_a_pod_is(
    accounts: Accounts, kube_config: KubeConfig
) -> None:
    given = {"metadata": {"ownerReferences": OWNED["ownerReferences"]}}
    with SyncKubeClient(config=kube_config) as kube:
        kube.create(PODS, named("orphan", {}) | TEMPLATE, accounts.namespace)
        patched = kube.patch(PODS, "orphan", given, accounts.namespace)
    assert patched["metadata"]["ownerReferences"][0]["uid"] == "0f3c"


def test_people_are_not_asked(accounts: Accounts, kube_config: KubeConfig) -> None:
    with SyncKubeClient(config=kube_config) as kube:
        kube.create(CONFIGMAPS, named("of-a-user", {}), accounts.namespace)
        spec = {"spec": {"suspend": True}}
        patched = kube.patch(DIJOBS, "coordinated", spec, accounts.namespace)
    assert patched["spec"]["suspend"] is True


def test_the_api_server_finds_no_fault_with_the_policies(accounts: Accounts) -> None:
    wait_until(lambda: all("typeChecking" in policy["status"] for policy in _policies(accounts)))
    names = accounts.rendered.of_kind("ValidatingAdmissionPolicy")
    found = {
        each["metadata"]["name"]: each["status"]["typeChecking"] for each in _policies(accounts)
    }
    assert found == {name: {} for name in names}


def _policies(accounts: Accounts) -> list[Object]:
    found = json.loads(accounts.kubectl("get", "validatingadmissionpolicies", "--output", "json"))
    ours = accounts.rendered.of_kind("ValidatingAdmissionPolicy")
    return [policy for policy in found["items"] if policy["metadata"]["name"] in ours]
