"""Whose a token is, and what that one is allowed to do."""

from __future__ import annotations

from typing import Any

import pytest

from di_local.api.tokens import AUDIENCE, Tokens

POD = {"metadata": {"namespace": "ns", "name": "p", "uid": "u"}, "spec": {}}


def reviewed(tokens: Tokens, token: str) -> Any:
    return tokens.review({"spec": {"token": token}})["status"]


@pytest.mark.parametrize(
    ("spec", "account"), [({}, "default"), ({"serviceAccountName": "robot"}, "robot")]
)
def test_a_pods_token_names_the_pod_and_its_service_account(
    spec: dict[str, str], account: str
) -> None:
    tokens = Tokens()
    status = reviewed(tokens, tokens.issue({**POD, "spec": spec}))
    assert (status["authenticated"], status["audiences"]) == (True, [AUDIENCE])
    assert status["user"]["username"] == f"system:serviceaccount:ns:{account}"
    assert [*status["user"]["extra"].values()] == [["p"], ["u"]]


def test_only_the_owner_is_allowed_what_is_not_a_pods_own() -> None:
    tokens = Tokens()
    pod = tokens.issue(POD)
    for token, is_owner in ((tokens.owner, True), (pod, False)):
        user = reviewed(tokens, token)["user"]["username"]
        access = {"spec": {"user": user}}
        assert Tokens.may(access) == {**access, "status": {"allowed": is_owner}}
        assert tokens.is_owner(f"Bearer {token}") is is_owner


@pytest.mark.parametrize("token", ["", "invented", "é", "\ud800"])
def test_an_invented_token_is_nobodys(token: str) -> None:
    tokens = Tokens()
    assert reviewed(tokens, token) == {"authenticated": False}
    assert tokens.review({})["status"] == {"authenticated": False}
    assert not tokens.is_owner(None)
    assert not tokens.is_owner(token)
