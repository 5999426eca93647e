"""Which caller reaches which job, in each mode."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.names import ANNOTATION_CHANGED_BY
from di_server.config import AuthMode
from tests.unit.server.fakes import Harness, Object, job, make_harness, pod, pod_user

PATH = "/v2alpha1/rl.cartpole/replicas"
OTHER = "/v2alpha1/rl.other/replicas"
MINE = "10.0.0.1"
ANN = {"username": "ann"}
UPDATE = ("ann", "update", "rl/cartpole")


def _harness(mode: AuthMode = AuthMode.OPTIONAL, **settings: Any) -> Harness:
    harness = make_harness(auth=mode, **settings)
    other = job("other", uid="uid-2")
    harness.add(job(), other)
    harness.add_pods(
        pod("mine", 0, MINE),
        pod("theirs", 0, "10.0.0.2", owner=other),
        pod("earlier", 0, "10.0.0.9", owner=job(uid="uid-0")),
        pod("ended", 1, "10.0.0.7", phase="Succeeded"),
        pod("host", 1, "10.0.0.8", hostNetwork=True),
    )
    harness.kube.users = {"pod": pod_user("mine"), "ann": ANN}
    return harness


@pytest.fixture
def harness() -> Harness:
    return _harness()


def _scale(harness: Harness, path: str = PATH, **caller: Any) -> int:
    return harness.ask(path, {"replicas": 1}, **{"ip": MINE, **caller})[0]


@pytest.mark.parametrize("mode", [AuthMode.OPTIONAL, AuthMode.REQUIRED])
class TestWithToken:
    @pytest.fixture
    def harness(self, mode: AuthMode) -> Harness:
        return _harness(mode)

    @pytest.mark.proves("rest.md#answers/403")
    def test_a_pod_reaches_its_own_job_alone(self, harness: Harness) -> None:
        harness.kube.users["earlier"] = pod_user("earlier")
        assert _scale(harness, token="pod") == 200
        assert _scale(harness, OTHER, token="pod") == 403
        # Of an earlier job of the name.
        assert _scale(harness, token="earlier") == 403
        assert harness.replicas() == 3

    @pytest.mark.proves("security.md#who-may-scale-a-job")
    @pytest.mark.parametrize(
        "user",
        [
            pytest.param(pod_user("mine", uid="another"), id="pod of the name was replaced"),
            pytest.param(pod_user("gone"), id="pod is gone"),
            pytest.param(pod_user("mine", namespace="kube-system"), id="another namespace"),
            pytest.param({"username": "system:serviceaccount:rl:default"}, id="not bound to a pod"),
            pytest.param(ANN, id="a person"),
        ],
    )
    def test_other_callers_need_the_permission(self, harness: Harness, user: Object) -> None:
        harness.kube.users["t"] = user
        assert _scale(harness, token="t") == 403
        harness.kube.allowed.add((user["username"], "update", "rl/cartpole"))
        harness.clock.sleep(11)
        assert _scale(harness, token="t") == 200

    @pytest.mark.parametrize("names_callers", [True, False])
    def test_the_caller_is_noted_on_the_job_if_configured(
        self, mode: AuthMode, names_callers: bool
    ) -> None:
        harness = _harness(mode, names_callers=names_callers)
        harness.job()["metadata"]["generation"] = 6
        harness.kube.allowed.add(UPDATE)
        for token, who in (("pod", "pod mine"), ("ann", "ann")):
            assert _scale(harness, token=token) == 200
            noted = harness.job()["metadata"].get("annotations", {}).get(ANNOTATION_CHANGED_BY)
            assert noted == (f"7 {who}" if names_callers else None)

    def test_reading_and_changing_are_two_permissions(self, harness: Harness) -> None:
        harness.kube.allowed.add(("ann", "get", "rl/cartpole"))
        assert harness.ask(PATH, token="ann")[0] == 200
        assert _scale(harness, token="ann") == 403

    def test_a_refusal_does_not_show_whether_the_job_exists(self, harness: Harness) -> None:
        assert _scale(harness, "/v2alpha1/rl.missing/replicas", token="ann") == 403
        assert _scale(harness, token="forged") == 401

    def test_a_review_is_cached_for_a_minute(self, harness: Harness) -> None:
        for pause, reviews in ((0, 1), (59, 1), (2, 2)):
            harness.clock.sleep(pause)
            assert _scale(harness, token="pod") == 200
            assert harness.kube.calls["create", "tokenreviews"] == reviews

    def test_a_denial_is_cached_for_ten_seconds_by_token_verb_and_job(
        self, harness: Harness
    ) -> None:
        harness.kube.users["t2"] = ANN
        reviews = "create", "subjectaccessreviews"
        for pause, asked in ((0, 1), (9, 1), (2, 2)):
            harness.clock.sleep(pause)
            assert _scale(harness, token="ann") == 403
            assert harness.kube.calls[reviews] == asked
        assert _scale(harness, OTHER, token="ann") == 403
        assert _scale(harness, token="t2") == 403
        harness.ask(PATH, token="ann")
        assert harness.kube.calls[reviews] == 5

    def test_a_permission_that_is_taken_away_ends_at_once(self, harness: Harness) -> None:
        harness.kube.allowed.add(UPDATE)
        assert _scale(harness, token="ann") == 200
        harness.kube.allowed.clear()
        assert _scale(harness, token="ann") == 403

    @pytest.mark.proves("rest.md#answers/401")
    @pytest.mark.parametrize("header", ["Basic YTpi", "Bearer", "Bearer ", "t", "Bearer \xe9"])
    def test_another_scheme_is_refused(self, mode: AuthMode, header: str) -> None:
        answer = _harness(mode).client.get(PATH, headers={"Authorization": header})
        assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_beside_https_only_pods_may_send_their_token_in_clear(scheme: str) -> None:
    harness = _harness(tls_port=8443)
    account = harness.kube.users["pod"]["username"]
    harness.kube.allowed |= {UPDATE, (account, "update", "rl/other")}
    assert _scale(harness, token="pod", scheme=scheme) == 200
    assert _scale(harness, scheme=scheme) == 200
    # A pod's account may reach other jobs over HTTPS alone, as a person may.
    for path, token in ((PATH, "ann"), (OTHER, "pod")):
        status, answer = harness.ask(path, {"replicas": 1}, token=token, ip=MINE, scheme=scheme)
        if scheme == "https":
            assert status == 200
        else:
            assert status == 403
            assert "use https and port 8443" in answer
    status, answer = harness.ask(PATH, token="forged", scheme=scheme)
    assert status == 401
    # The refusal never asks for a token in clear.
    assert ("over https, port 8443" in answer) == (scheme == "http")


def test_a_header_does_not_make_a_request_an_encrypted_one() -> None:
    harness = _harness(tls_port=8443)
    harness.kube.allowed.add(("ann", "get", "rl/cartpole"))
    headers = {"X-Forwarded-Proto": "https"}
    assert harness.ask(PATH, token="ann", headers=headers)[0] == 403


def test_an_audience_the_authenticator_did_not_check_is_refused() -> None:
    harness = _harness(AuthMode.REQUIRED)
    create = harness.kube.create

    def without_audiences(*args: Any, **kwargs: Any) -> Object:
        review = create(*args, **kwargs)
        review["status"].pop("audiences", None)
        return review

    harness.kube.create = without_audiences  # type: ignore[method-assign]
    assert _scale(harness, token="pod") == 401


@pytest.mark.proves("rest.md#who-may/optional-default")
@pytest.mark.parametrize(
    ("ip", "status"),
    [
        (MINE, 200),
        (f"::ffff:{MINE}", 200),
        *((ip, 401) for ip in ("10.0.0.2", "127.0.0.1", "10.0.0.11", "::1", "", "junk")),
        pytest.param("10.0.0.7", 401, id="of a pod that has ended"),
        pytest.param("10.0.0.8", 401, id="of a pod on the network of its node"),
        pytest.param("10.0.0.9", 403, id="of an earlier job of the name"),
    ],
)
def test_without_a_token_the_address_of_a_pod_reaches_its_job(
    harness: Harness, ip: str, status: int
) -> None:
    assert _scale(harness, ip=ip) == status
    assert harness.replicas() == (3 if status == 200 else 2)


def test_the_address_in_a_header_is_ignored() -> None:
    headers = {"X-Forwarded-For": MINE, "Forwarded": f"for={MINE}"}
    assert _harness().ask(PATH, headers=headers)[0] == 401


@pytest.mark.proves("rest.md#who-may/required")
def test_where_a_token_is_required_an_address_is_not_enough() -> None:
    assert _scale(_harness(AuthMode.REQUIRED)) == 401


def test_an_unknown_caller_does_not_use_up_the_rate_of_a_job(harness: Harness) -> None:
    for _ in range(60):
        _scale(harness, ip="10.9.9.9")
    assert _scale(harness) == 200
