"""Who reaches which job, in each mode."""

from __future__ import annotations

from typing import Any

import pytest

from di_server.services.gate import AuthMode
from tests.unit.server.fakes import Object, Stand, job, make_stand, pod

PATH = "/v2alpha1/rl.cartpole/replicas"
OTHER = "/v2alpha1/rl.other/replicas"
POD_NAME = "authentication.kubernetes.io/pod-name"
POD_UID = "authentication.kubernetes.io/pod-uid"


def _stand(mode: AuthMode) -> Stand:
    stand = make_stand(auth=mode)
    other = job("other", uid="uid-2")
    stand.add(job(), other)
    stand.add_pods(pod("mine", 0, "10.0.0.1"), pod("theirs", 0, "10.0.0.2", owner=other))
    return stand


def _pod_user(name: str = "mine", namespace: str = "rl", uid: str | None = None) -> Object:
    extra = {POD_NAME: [name], POD_UID: [uid or f"uid-of-{name}"]}
    return {"username": f"system:serviceaccount:{namespace}:default", "extra": extra}


def _call(
    stand: Stand, path: str = PATH, *, token: str | None = None, ip: str = "10.0.0.1"
) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    answer = stand.client.post(
        path, data='{"replicas": 1}', headers=headers, environ_overrides={"REMOTE_ADDR": ip}
    )
    assert answer.status_code != 401 or answer.headers["WWW-Authenticate"] == "Bearer"
    return answer.status_code, answer.json


@pytest.mark.parametrize("mode", [AuthMode.OPTIONAL, AuthMode.REQUIRED])
class TestWithToken:
    def test_a_pod_reaches_its_own_job(self, mode: AuthMode) -> None:
        stand = _stand(mode)
        stand.kube.users["t"] = _pod_user()
        assert _call(stand, token="t")[0] == 200

    def test_a_pod_does_not_reach_another_job(self, mode: AuthMode) -> None:
        stand = _stand(mode)
        stand.kube.users["t"] = _pod_user()
        assert _call(stand, OTHER, token="t")[0] == 403

    def test_a_pod_of_an_earlier_job_of_the_name_is_refused(self, mode: AuthMode) -> None:
        stand = _stand(mode)
        stand.add_pods(pod("old", 0, "10.0.0.9", owner=job(uid="uid-0")))
        stand.kube.users["t"] = _pod_user("old")
        assert _call(stand, token="t")[0] == 403
        assert stand.replicas() == 2

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
        stand = _stand(mode)
        stand.kube.users["t"] = user
        assert _call(stand, token="t")[0] == 403
        stand.kube.allowed.add((user["username"], "update", "rl/cartpole"))
        assert _call(stand, token="t")[0] == 200

    def test_reading_and_changing_are_two_permissions(self, mode: AuthMode) -> None:
        stand = _stand(mode)
        stand.kube.users["t"] = {"username": "ann"}
        stand.kube.allowed.add(("ann", "get", "rl/cartpole"))
        read = stand.client.get(PATH, headers={"Authorization": "Bearer t"})
        assert (read.status_code, _call(stand, token="t")[0]) == (200, 403)

    def test_a_token_that_does_not_hold_is_refused(self, mode: AuthMode) -> None:
        assert _call(_stand(mode), token="forged")[0] == 401

    def test_a_refusal_does_not_tell_whether_the_job_exists(self, mode: AuthMode) -> None:
        stand = _stand(mode)
        stand.kube.users["t"] = {"username": "ann"}
        assert _call(stand, "/v2alpha1/rl.missing/replicas", token="t")[0] == 403

    def test_a_review_is_kept_for_a_minute(self, mode: AuthMode) -> None:
        stand = _stand(mode)
        stand.kube.users["t"] = _pod_user()
        for pause, reviews in ((0, 1), (59, 1), (2, 2)):
            stand.clock.sleep(pause)
            assert _call(stand, token="t")[0] == 200
            assert stand.kube.calls["create", "tokenreviews"] == reviews

    @pytest.mark.parametrize("header", ["Basic YTpi", "Bearer", "Bearer ", "t", "Bearer \xe9"])
    def test_another_scheme_is_refused(self, mode: AuthMode, header: str) -> None:
        stand = _stand(mode)
        answer = stand.client.get(PATH, headers={"Authorization": header})
        assert answer.status_code == 401


def test_an_audience_the_authenticator_did_not_check_is_refused() -> None:
    stand = _stand(AuthMode.REQUIRED)
    stand.kube.users["t"] = _pod_user()
    create = stand.kube.create

    def without_audiences(*args: Any, **kwargs: Any) -> Object:
        review = create(*args, **kwargs)
        review["status"].pop("audiences", None)
        return review

    stand.kube.create = without_audiences  # type: ignore[method-assign]
    assert _call(stand, token="t")[0] == 401


def test_without_a_token_a_pod_reaches_its_own_job_by_its_address() -> None:
    stand = _stand(AuthMode.OPTIONAL)
    assert _call(stand, ip="10.0.0.1")[0] == 200
    assert _call(stand, ip="::ffff:10.0.0.1")[0] == 200


@pytest.mark.parametrize("ip", ["10.0.0.2", "127.0.0.1", "10.0.0.11", "::1", "", "junk"])
def test_without_a_token_no_other_address_reaches_it(ip: str) -> None:
    stand = _stand(AuthMode.OPTIONAL)
    assert _call(stand, ip=ip)[0] == 401
    assert stand.replicas() == 2


def test_the_address_a_header_claims_counts_for_nothing() -> None:
    stand = _stand(AuthMode.OPTIONAL)
    headers = {"X-Forwarded-For": "10.0.0.1", "Forwarded": "for=10.0.0.1"}
    assert stand.client.get(PATH, headers=headers).status_code == 401


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(pod("old", 1, "10.0.0.7", phase="Succeeded"), id="ended"),
        pytest.param(pod("host", 1, "10.0.0.7", hostNetwork=True), id="on the network of its node"),
    ],
)
def test_an_address_that_may_be_somebody_elses_is_refused(made: Object) -> None:
    stand = _stand(AuthMode.OPTIONAL)
    stand.add_pods(made)
    assert _call(stand, ip="10.0.0.7")[0] == 401


def test_an_address_of_an_earlier_job_of_the_name_is_refused() -> None:
    stand = _stand(AuthMode.OPTIONAL)
    stand.add_pods(pod("old", 0, "10.0.0.9", owner=job(uid="uid-0")))
    assert _call(stand, ip="10.0.0.9")[0] == 403


def test_required_takes_no_address_for_a_name() -> None:
    assert _call(_stand(AuthMode.REQUIRED), ip="10.0.0.1")[0] == 401


def test_a_stranger_does_not_use_up_the_share_of_a_job() -> None:
    stand = _stand(AuthMode.OPTIONAL)
    for _ in range(60):
        _call(stand, ip="10.9.9.9")
    assert _call(stand, ip="10.0.0.1")[0] == 200
