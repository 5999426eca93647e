"""Identity, judged by the API server's own TokenReview and SubjectAccessReview."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
import requests

from di_certs.files import CA_CERTIFICATE, write_certificates
from di_kube.resources import (
    PODS,
    SERVICE_ACCOUNTS,
    SUBJECT_ACCESS_REVIEWS,
)
from di_kube.sync import SyncKubeClient
from tests.integration.conftest import ApiServer
from tests.integration.di_server import (
    Object,
    ServerProcess,
    new_job,
    new_pod,
    running_server,
    session_from,
)
from tests.integration.service_accounts import grant, token_of
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("crd")


@pytest.fixture(scope="module")
def server(
    api_server: ApiServer, crd: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("server")
    write_certificates(folder, ["127.0.0.1"], now=datetime.now(UTC), lifetime=timedelta(days=1))
    with running_server(
        folder, api_server.kubeconfig, certificates=folder, auth="optional"
    ) as server:
        yield server


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Two jobs in one namespace, and the means to act as their pods."""

    server: ServerProcess
    kube: SyncKubeClient
    namespace: str
    mine: Object
    other: Object

    def token(
        self, account: str = "default", *, audience: str = "di-server", pod: Object | None = None
    ) -> str:
        return token_of(self.kube, self.namespace, account, audience=audience, pod=pod)

    def is_allowed(self, account: str, rule: Object) -> bool:
        """Whether the API server has learnt that a service account may do what the rule says."""
        resource, _, subresource = rule["resources"][0].partition("/")
        attributes = {
            "namespace": self.namespace,
            "group": rule["apiGroups"][0],
            "resource": resource,
            "subresource": subresource,
            "name": rule["resourceNames"][0],
            "verb": rule["verbs"][0],
        }
        user = f"system:serviceaccount:{self.namespace}:{account}"
        body = {
            "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version,
            "kind": SUBJECT_ACCESS_REVIEWS.kind,
            "spec": {"user": user, "resourceAttributes": attributes},
        }
        review = self.kube.create(SUBJECT_ACCESS_REVIEWS, body)
        return review["status"]["allowed"] is True

    def post(self, job: Object, token: str | None = None, *, encrypted: bool = False) -> int:
        """Status of an attempt to add a replica."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = requests.post(
            self.server.replicas_of(job, encrypted=encrypted),
            json={"replicas": 1},
            headers=headers,
            verify=str(self.server.log.parent / CA_CERTIFICATE),
            timeout=60,
        )
        return answer.status_code


@pytest.fixture
def world(server: ServerProcess, kube: SyncKubeClient, namespace: str) -> World:
    return World(
        server=server,
        kube=kube,
        namespace=namespace,
        mine=new_job(kube, namespace, "mine"),
        other=new_job(kube, namespace, "other"),
    )


def test_a_pods_token_reaches_its_own_job_and_no_other(world: World) -> None:
    token = world.token(pod=new_pod(world.kube, world.mine, 0, "10.1.0.1"))
    for encrypted in (False, True):
        assert world.post(world.mine, token, encrypted=encrypted) == 200
        assert world.post(world.other, token, encrypted=encrypted) == 403


def test_a_token_for_somebody_else_is_refused(world: World) -> None:
    pod = new_pod(world.kube, world.mine, 0, "10.1.0.1")
    token = world.token(pod=pod, audience="https://kubernetes.default.svc.cluster.local")
    assert world.post(world.mine, token) == 401
    assert world.post(world.mine, "forged") == 401


def test_a_foreign_pod_that_wears_the_labels_of_a_job_is_refused(world: World) -> None:
    body = {
        "metadata": {"name": "foreign", "labels": {"diengine/job": "mine"}},
        "spec": {"containers": [{"name": "c", "image": "busybox"}]},
    }
    pod = world.kube.create(PODS, body, world.namespace)
    assert world.post(world.mine, world.token(pod=pod)) == 403


def test_people_need_the_permission_on_scale_and_https(world: World) -> None:
    world.kube.create(SERVICE_ACCOUNTS, {"metadata": {"name": "ann"}}, world.namespace)
    token = world.token("ann")
    assert world.post(world.mine, token, encrypted=True) == 403
    rule = {
        "apiGroups": ["diengine.opendilab.org"],
        "resources": ["dijobs/scale"],
        "resourceNames": ["mine"],
        "verbs": ["update"],
    }
    grant(world.kube, world.namespace, "ann", [rule])
    # The API server's authorizer learns of a binding by a watch of its own.
    wait_until(lambda: world.is_allowed("ann", rule), what="the binding to hold")
    # What was denied to the other token is remembered.
    token = world.token("ann")
    assert world.post(world.mine, token, encrypted=True) == 200
    assert world.post(world.other, token, encrypted=True) == 403
    assert world.post(world.mine, token) == 403


def test_a_pod_is_let_in_as_soon_as_its_address_is_written(world: World) -> None:
    # Before the watch has shown it, now and then.
    for number in range(1, 21):
        address = f"127.77.0.{number}"
        new_pod(world.kube, world.mine, number, address)
        with session_from(address) as session:
            assert session.get(world.server.replicas_of(world.mine), timeout=60).status_code == 200


def test_a_stranger_is_refused_before_long_and_stops_nobody(world: World) -> None:
    new_pod(world.kube, world.mine, 0, "127.88.0.1")
    token = world.token(pod=new_pod(world.kube, world.mine, 1, "10.1.0.1"))
    url = world.server.replicas_of(world.mine)
    with session_from("127.88.0.1") as pod, session_from("127.88.0.2") as stranger:

        def good() -> list[int]:
            headers = {"Authorization": f"Bearer {token}"}
            answers = (pod.get(url, timeout=60), stranger.get(url, headers=headers, timeout=60))
            return [answer.status_code for answer in answers]

        assert good() == [200, 200]
        began = time.monotonic()
        answers = [stranger.get(url, timeout=60) for _ in range(400)]
        for number in range(200):
            bogus = {"Authorization": f"Bearer {number}"}
            answers.append(stranger.get(url, headers=bogus, timeout=60))
        assert good() == [200, 200]
        seconds = time.monotonic() - began
    refused = Counter(answer.status_code for answer in answers)
    assert set(refused) == {401, 429}
    # One address may be refused 20 times at once, and once a second from then on.
    assert refused[401] <= 21 + seconds
    assert all(int(each.headers["Retry-After"]) >= 1 for each in answers if each.status_code == 429)
