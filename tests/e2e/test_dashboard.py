"""The page that the chart installs, asked as a single sign-on asks it for two people."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import requests
from typing_extensions import override

from di_cluster.release import Release
from tests.e2e.conftest import NAMESPACE
from tests.e2e.jobs import job, sleep, task
from tests.e2e.kubectl import Kubectl
from tests.e2e.test_history import forwarded
from tests.waiting import wait_until

SERVER_NAME = f"di-dashboard.{NAMESPACE}.svc"


class Ask(Protocol):
    """Asks the page for a path with a token; without one there is no token."""

    def __call__(self, token: str, path: str = "/") -> requests.Response: ...


class _Named(requests.adapters.HTTPAdapter):
    """Calls the service by its name, whatever the address is."""

    @override
    def init_poolmanager(self, *arguments: Any, **more: Any) -> None:
        super().init_poolmanager(*arguments, **more, server_hostname=SERVER_NAME)


def test_each_sees_their_own_jobs_and_nobody_without_a_token_any(
    release: Release, kubectl: Kubectl, namespace: str, python_image: str, tmp_path: Path
) -> None:
    learner = task("learner", image=python_image, program=sleep(3600))
    kubectl.apply(job("shown", namespace=namespace, tasks=[learner]))
    kubectl("--namespace", namespace, "create", "serviceaccount", "reader")
    kubectl(
        *("--namespace", namespace, "create", "role", "reads", "--verb=list,watch"),
        *("--resource=dijobs.diengine.opendilab.org,pods,events",),
    )
    kubectl(
        *("--namespace", namespace, "create", "rolebinding", "reads", "--role=reads"),
        f"--serviceaccount={namespace}:reader",
    )
    reader, stranger = (
        kubectl("--namespace", namespace, "create", "token", name).strip()
        for name in ("reader", "default")
    )

    with asked(kubectl, tmp_path) as page:
        assert page("").status_code == 401
        path = f"/jobs/{namespace}/shown"
        wait_until(lambda: "Running" in page(reader, path).text)
        assert "/jobs/" not in page(reader).text.replace(path, "").replace("/jobs/-", "")
        assert "Which namespace?" in page(stranger).text
        assert page(stranger, path).text.count("shown") == 0


@contextmanager
def asked(kubectl: Kubectl, folder: Path) -> Iterator[Ask]:
    """The page, asked with a user's token for a path."""
    authority = folder / "ca.crt"
    authority.write_bytes(_authority(kubectl))
    with forwarded(kubectl, "di-dashboard") as port, requests.Session() as session:
        session.mount("https://", _Named())

        def page(token: str, path: str = "/") -> requests.Response:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            url = f"https://127.0.0.1:{port}{path}"
            return session.get(url, headers=headers, timeout=60, verify=str(authority))

        yield page


def _authority(kubectl: Kubectl) -> bytes:
    secret = ("get", "secret", "di-dashboard-tls", "--output=jsonpath={.data.ca\\.crt}")
    return base64.b64decode(kubectl("--namespace", NAMESPACE, *secret))
