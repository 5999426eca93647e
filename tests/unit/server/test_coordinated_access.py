"""Which replicas a caller may list and change through a coordinator, in each mode."""

from __future__ import annotations

import pytest
from werkzeug.test import TestResponse

from di_server.services.gate import AuthMode
from tests.unit.server.fakes import Object, Stand, coordinated, job, make_stand, pod, replica, watch

PATH = "/v1alpha1/replicas"
MINE, THEIRS = "10.0.0.1", "10.0.0.2"
STRANGER = "10.9.9.9"
_POD_NAME = "authentication.kubernetes.io/pod-name"
_POD_UID = "authentication.kubernetes.io/pod-uid"


def _coordinator(job: Object, ip: str, name: str | None = None) -> Object:
    return pod(name or f"{job['metadata']['name']}-coordinator", "", ip, owner=job)


def _stand(mode: AuthMode, *, watched: bool) -> Stand:
    stand = make_stand(auth=mode)
    mine = coordinated(replica("c1"))
    theirs = coordinated(name="other", uid="uid-2")
    far = coordinated(name="far", namespace="lab", uid="uid-3")
    stand.add(mine, theirs, far)
    stand.add_pods(_coordinator(mine, MINE), _coordinator(theirs, THEIRS))
    if watched:
        watch(stand)
    return stand


def _post(
    stand: Stand, name: str = "cartpole", *, token: str | None = None, ip: str = MINE
) -> TestResponse:
    return stand.client.post(
        PATH,
        json={
            "namespace": "rl",
            "coordinator": f"{name}-coordinator",
            "collectors": {"replicas": 1},
        },
        headers={"Authorization": f"Bearer {token}"} if token else {},
        environ_overrides={"REMOTE_ADDR": ip},
    )


def _list(stand: Stand, query: str = "", *, token: str | None = None, ip: str = MINE) -> object:
    answer = stand.client.get(
        f"{PATH}{query}",
        headers={"Authorization": f"Bearer {token}"} if token else {},
        environ_overrides={"REMOTE_ADDR": ip},
    )
    if answer.status_code != 200:
        return answer.status_code
    assert answer.json is not None
    return [each["coordinator"] for each in answer.json["data"]]


def _pod_user(name: str = "cartpole-coordinator") -> Object:
    extra = {_POD_NAME: [name], _POD_UID: [f"uid-of-{name}"]}
    return {"username": "system:serviceaccount:rl:default", "extra": extra}


@pytest.fixture(params=[False, True], ids=["live", "watched"])
def watched(request: pytest.FixtureRequest) -> bool:
    """Whether the server's watches have filled its memory."""
    found: bool = request.param
    return found


def test_a_pod_reaches_its_own_job_by_its_address(watched: bool) -> None:
    stand = _stand(AuthMode.OPTIONAL, watched=watched)
    assert _post(stand).status_code == 200
    assert _post(stand, "other").status_code == 401
    assert _post(stand, ip=STRANGER).status_code == 401
    assert (stand.kube.calls["list", "pods"] == 2) is watched


def test_a_pod_that_has_only_just_started_reaches_it_too(watched: bool) -> None:
    stand = _stand(AuthMode.OPTIONAL, watched=watched)
    stand.add_pods(_coordinator(coordinated(), "10.0.0.3", "cartpole-aggregator-bbbbb"))
    assert _post(stand, ip="10.0.0.3").status_code == 200
    assert _list(stand, ip="10.0.0.3") == ["cartpole-coordinator"]


def test_an_address_that_went_from_one_pod_to_another_is_looked_at_again(watched: bool) -> None:
    stand = _stand(AuthMode.OPTIONAL, watched=watched)
    successor = _coordinator(coordinated(name="far", namespace="lab", uid="uid-3"), MINE)
    stand.add_pods(successor)
    if watched:
        watch(stand)
    del stand.kube.objects["pods", "rl", "cartpole-coordinator"]
    assert _post(stand).status_code == 401
    assert _list(stand) == ["far-coordinator"]


def test_a_pod_of_an_earlier_job_of_the_name_is_refused(watched: bool) -> None:
    stand = _stand(AuthMode.OPTIONAL, watched=watched)
    stand.add_pods(_coordinator(job(uid="uid-0"), "10.0.0.8", "cartpole-collector-bbbbb"))
    if watched:
        watch(stand)
    assert _post(stand, ip="10.0.0.8").status_code == 403
    assert _list(stand, ip="10.0.0.8") == []


@pytest.mark.parametrize("query", ["", "?namespace=rl"])
def test_a_pod_lists_its_own_job_alone(watched: bool, query: str) -> None:
    stand = _stand(AuthMode.OPTIONAL, watched=watched)
    assert _list(stand, query) == ["cartpole-coordinator"]
    assert _list(stand, query, ip=THEIRS) == ["other-coordinator"]
    assert _list(stand, query, ip=STRANGER) == 401
    assert _list(stand, "?namespace=lab") == []


def test_without_checks_everything_is_listed(watched: bool) -> None:
    stand = _stand(AuthMode.OFF, watched=watched)
    assert _list(stand, ip=STRANGER) == [
        "far-coordinator",
        "cartpole-coordinator",
        "other-coordinator",
    ]


@pytest.mark.parametrize("mode", [AuthMode.OPTIONAL, AuthMode.REQUIRED])
def test_with_a_token_the_permission_decides_what_is_listed(mode: AuthMode, watched: bool) -> None:
    stand = _stand(mode, watched=watched)
    stand.kube.users["t"] = {"username": "ann"}
    assert _list(stand, token="t") == 403
    stand.kube.allowed.add(("ann", "get", "rl/"))
    assert _list(stand, "?namespace=rl", token="t") == ["cartpole-coordinator", "other-coordinator"]
    assert _list(stand, token="t") == 403
    stand.kube.allowed.add(("ann", "get", "/"))
    assert _list(stand, token="t") == [
        "far-coordinator",
        "cartpole-coordinator",
        "other-coordinator",
    ]


@pytest.mark.parametrize("mode", [AuthMode.OPTIONAL, AuthMode.REQUIRED])
def test_the_token_of_a_pod_lists_its_own_job(mode: AuthMode, watched: bool) -> None:
    stand = _stand(mode, watched=watched)
    stand.kube.users["t"] = _pod_user()
    assert _list(stand, token="t", ip=STRANGER) == ["cartpole-coordinator"]
    assert _post(stand, token="t", ip=STRANGER).status_code == 200
    assert _post(stand, "other", token="t", ip=STRANGER).status_code == 403


def test_where_a_token_is_required_an_address_is_none(watched: bool) -> None:
    stand = _stand(AuthMode.REQUIRED, watched=watched)
    assert _post(stand).status_code == 401
    assert _list(stand) == 401


def test_a_refusal_does_not_tell_whether_the_job_exists(watched: bool) -> None:
    stand = _stand(AuthMode.OPTIONAL, watched=watched)
    assert _post(stand, "missing").status_code == 401
    stand.kube.users["t"] = {"username": "ann"}
    assert _post(stand, "missing", token="t").status_code == 403
