"""Who reaches which job, in each mode."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.names import ANNOTATION_CHANGED_BY
from di_server.config import AuthMode
from tests.unit.server.fakes import Harness, Object, job, make_harness, pod

PATH = "/v2alpha1/rl.cartpole/replicas"
OTHER = "/v2alpha1/rl.other/replicas"
POD_NAME = "authentication.kubernetes.io/pod-name"
POD_UID = "authentication.kubernetes.io/pod-uid"


def _harness(
    mode: AuthMode, *, tls_port: int | None = None, names_callers: bool = False
) -> Harness:
    harness = make_harness(auth=mode, tls_port=tls_port, names_callers=names_callers)
    other = job("other", uid="uid-2")
    harness.add(job(), other)
    harness.add_pods(pod("mine", 0, "10.0.0.1"), pod("theirs", 0, "10.0.0.2", owner=other))
    return harness


def _pod_user(name: str = "mine", namespace: str = "rl", uid: str | None = None) -> Object:
    extra = {POD_NAME: [name], POD_UID: [uid or f"uid-of-{name}"]}
    return {"username": f"system:serviceaccount:{namespace}:default", "extra": extra}


def _call(
    harness: Harness,
    path: str = PATH,
    *,
    token: str | None = None,
    ip: str = "10.0.0.1",
    scheme: str = "http",
) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    answer = harness.client.post(
        path,
        data='{"replicas": 1}',
        headers=headers,
        environ_overrides={"REMOTE_ADDR": ip, "wsgi.url_scheme": scheme},
    )
    assert answer.status_code != 401 or answer.headers["WWW-Authenticate"] == "Bearer"
    return answer.status_code, answer.json


@pytest.mark.parametrize("mode", [AuthMode.OPTIONAL, AuthMode.REQUIRED])
class TestWithToken:
    def test_a_pod_reaches_its_own_job(self, mode: AuthMode) -> None:
        harness = _harness(mode)
        harness.kube.users["t"] = _pod_user()
        assert _call(harness, token="t")[0] == 200

    def test_a_pod_does_not_reach_another_job(self, mode: AuthMode) -> None:
        harness = _harness(mode)
        harness.kube.users["t"] = _pod_user()
        assert _call(harness, OTHER, token="t")[0] == 403

    def test_a_pod_of_an_earlier_job_of_the_name_is_refused(self, mode: AuthMode) -> None:
        harness = _harness(mode)
        harness.add_pods(pod("old", 0, "10.0.0.9", owner=job(uid="uid-0")))
        harness.kube.users["t"] = _pod_user("old")
        assert _call(harness, token="t")[0] == 403
        assert harness.replicas() == 2

    @pytest.mark.parametrize(
        "user",
        [
            pytest.param(_pod_user(uid="another"), id="pod of the name was replaced"),
            pytest.param(_pod_user("gone"), id="pod is gone"),
            pytest.param(_pod_user(namespace="kube-system"), id="account of another namespace"),
            pytest.param({"username": "system:serviceaccount:rl:default"}, id="not bound to a pod"),
            pytest.param({"username": "ann"}, id="a person without the permission"),
        ],
    )
    def test_anybody_else_needs_the_permission(self, mode: AuthMode, user: Object) -> None:
        harness = _harness(mode)
        harness.kube.users["t"] = user
        assert _call(harness, token="t")[0] == 403
        harness.kube.allowed.add((user["username"], "update", "rl/cartpole"))
        harness.clock.sleep(11)
        assert _call(harness, token="t")[0] == 200

    def test_who_asked_is_noted_on_the_job(self, mode: AuthMode) -> None:
        harness = _harness(mode, names_callers=True)
        harness.job()["metadata"]["generation"] = 6
        harness.kube.users = {"p": _pod_user(), "t": {"username": "ann"}}
        harness.kube.allowed.add(("ann", "update", "rl/cartpole"))
        for token, who in (("p", "pod mine"), ("t", "ann")):
            assert _call(harness, token=token)[0] == 200
            assert harness.job()["metadata"]["annotations"][ANNOTATION_CHANGED_BY] == f"7 {who}"

    def test_without_a_webhook_that_believes_it_nobody_is_named(self, mode: AuthMode) -> None:
        harness = _harness(mode)
        harness.kube.users["p"] = _pod_user()
        assert _call(harness, token="p")[0] == 200
        assert ANNOTATION_CHANGED_BY not in harness.job()["metadata"].get("annotations", {})

    def test_reading_and_changing_are_two_permissions(self, mode: AuthMode) -> None:
        harness = _harness(mode)
        harness.kube.users["t"] = {"username": "ann"}
        harness.kube.allowed.add(("ann", "get", "rl/cartpole"))
        read = harness.client.get(PATH, headers={"Authorization": "Bearer t"})
        assert (read.status_code, _call(harness, token="t")[0]) == (200, 403)

    def test_a_token_that_does_not_hold_is_refused(self, mode: AuthMode) -> None:
        assert _call(_harness(mode), token="forged")[0] == 401

    def test_a_refusal_does_not_tell_whether_the_job_exists(self, mode: AuthMode) -> None:
        harness = _harness(mode)
        harness.kube.users["t"] = {"username": "ann"}
        assert _call(harness, "/v2alpha1/rl.missing/replicas", token="t")[0] == 403

    def test_a_review_is_kept_for_a_minute(self, mode: AuthMode) -> None:
        harness = _harness(mode)
        harness.kube.users["t"] = _pod_user()
        for pause, reviews in ((0, 1), (59, 1), (2, 2)):
            harness.clock.sleep(pause)
            assert _call(harness, token="t")[0] == 200
            assert harness.kube.calls["create", "tokenreviews"] == reviews

    def test_what_is_denied_is_asked_about_again_after_a_while(self, mode: AuthMode) -> None:
        harness = _harness(mode)
        harness.kube.users["t"] = {"username": "ann"}
        harness.kube.users["t2"] = {"username": "ann"}
        reviews = "create", "subjectaccessreviews"
        for pause, asked in ((0, 1), (9, 1), (2, 2)):
            harness.clock.sleep(pause)
            assert _call(harness, token="t")[0] == 403
            assert harness.kube.calls[reviews] == asked
        # It was denied to this token, for this verb, on this job.
        assert _call(harness, OTHER, token="t")[0] == 403
        assert _call(harness, token="t2")[0] == 403
        harness.client.get(PATH, headers={"Authorization": "Bearer t"})
        assert harness.kube.calls[reviews] == 5

    def test_a_right_that_is_taken_away_ends_at_once(self, mode: AuthMode) -> None:
        harness = _harness(mode)
        harness.kube.users["t"] = {"username": "ann"}
        harness.kube.allowed.add(("ann", "update", "rl/cartpole"))
        assert _call(harness, token="t")[0] == 200
        harness.kube.allowed.clear()
        assert _call(harness, token="t")[0] == 403

    @pytest.mark.parametrize("header", ["Basic YTpi", "Bearer", "Bearer ", "t", "Bearer \xe9"])
    def test_another_scheme_is_refused(self, mode: AuthMode, header: str) -> None:
        harness = _harness(mode)
        answer = harness.client.get(PATH, headers={"Authorization": header})
        assert answer.status_code == 401


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_where_https_is_served_only_pods_send_their_token_in_clear(scheme: str) -> None:
    harness = _harness(AuthMode.OPTIONAL, tls_port=8443)
    harness.kube.users |= {"ann": {"username": "ann"}, "pod": _pod_user()}
    account = harness.kube.users["pod"]["username"]
    harness.kube.allowed |= {
        ("ann", "update", "rl/cartpole"),
        (account, "update", "rl/other"),
    }
    assert _call(harness, token="pod", scheme=scheme)[0] == 200
    assert _call(harness, scheme=scheme)[0] == 200
    # What a pod's account may besides is no more to be shown to others than what a person may.
    for path, token in ((PATH, "ann"), (OTHER, "pod")):
        status, answer = _call(harness, path, token=token, scheme=scheme)
        if scheme == "https":
            assert status == 200
        else:
            assert status == 403
            assert "use https and port 8443" in answer["message"]
    status, answer = _call(harness, token="forged", scheme=scheme)
    assert status == 401
    # Nobody is asked to send one in clear.
    assert ("over https, port 8443" in answer["message"]) == (scheme == "http")


def test_a_header_does_not_make_a_request_an_encrypted_one() -> None:
    harness = _harness(AuthMode.OPTIONAL, tls_port=8443)
    harness.kube.users["ann"] = {"username": "ann"}
    harness.kube.allowed.add(("ann", "get", "rl/cartpole"))
    headers = {"Authorization": "Bearer ann", "X-Forwarded-Proto": "https"}
    assert harness.client.get(PATH, headers=headers).status_code == 403


def test_an_audience_the_authenticator_did_not_check_is_refused() -> None:
    harness = _harness(AuthMode.REQUIRED)
    harness.kube.users["t"] = _pod_user()
    create = harness.kube.create

    def without_audiences(*args: Any, **kwargs: Any) -> Object:
        review = create(*args, **kwargs)
        review["status"].pop("audiences", None)
        return review

    harness.kube.create = without_audiences  # type: ignore[method-assign]
    assert _call(harness, token="t")[0] == 401


def test_without_a_token_a_pod_reaches_its_own_job_by_its_address() -> None:
    harness = _harness(AuthMode.OPTIONAL)
    assert _call(harness, ip="10.0.0.1")[0] == 200
    assert _call(harness, ip="::ffff:10.0.0.1")[0] == 200


@pytest.mark.parametrize("ip", ["10.0.0.2", "127.0.0.1", "10.0.0.11", "::1", "", "junk"])
def test_without_a_token_no_other_address_reaches_it(ip: str) -> None:
    harness = _harness(AuthMode.OPTIONAL)
    assert _call(harness, ip=ip)[0] == 401
    assert harness.replicas() == 2


def test_the_address_a_header_claims_counts_for_nothing() -> None:
    harness = _harness(AuthMode.OPTIONAL)
    headers = {"X-Forwarded-For": "10.0.0.1", "Forwarded": "for=10.0.0.1"}
    assert harness.client.get(PATH, headers=headers).status_code == 401


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(pod("old", 1, "10.0.0.7", phase="Succeeded"), id="ended"),
        pytest.param(pod("host", 1, "10.0.0.7", hostNetwork=True), id="on the network of its node"),
    ],
)
def test_an_address_that_may_be_somebody_elses_is_refused(made: Object) -> None:
    harness = _harness(AuthMode.OPTIONAL)
    harness.add_pods(made)
    assert _call(harness, ip="10.0.0.7")[0] == 401


def test_an_address_of_an_earlier_job_of_the_name_is_refused() -> None:
    harness = _harness(AuthMode.OPTIONAL)
    harness.add_pods(pod("old", 0, "10.0.0.9", owner=job(uid="uid-0")))
    assert _call(harness, ip="10.0.0.9")[0] == 403


def test_required_takes_no_address_for_a_name() -> None:
    assert _call(_harness(AuthMode.REQUIRED), ip="10.0.0.1")[0] == 401


def test_an_unknown_caller_does_not_use_up_the_rate_of_a_job() -> None:
    harness = _harness(AuthMode.OPTIONAL)
    for _ in range(60):
        _call(harness, ip="10.9.9.9")
    assert _call(harness, ip="10.0.0.1")[0] == 200
