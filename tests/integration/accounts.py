"""The accounts of a release as the chart sets them up: their roles, policies and tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import requests
import yaml

from di_kube.config import load_config
from di_kube.resources import CONFIGMAPS, DIJOBS, SECRETS
from di_kube.wire import JSON, MERGE_PATCH
from tests.chart.chart import Chart, Rendered
from tests.e2e.kubectl import Kubectl
from tests.integration.conftest import ApiServer
from tests.waiting import wait_until

# In the order in which the API server gets to know them: a policy before it is in force.
KINDS = (
    "ServiceAccount",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)
OPERATOR, SERVER = "di-operator", "di-server"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """A release of which nothing but the accounts is installed.

    Attributes:
        namespace: the release's.
        rendered: all objects of the release.
        kubectl: kubectl with the administrator's rights.
        folder: where the accounts' credentials are put.
    """

    namespace: str
    rendered: Rendered
    kubectl: Kubectl
    folder: Path
    _sessions: dict[str, tuple[str, requests.Session]] = field(default_factory=dict)

    def kubeconfig(self, account: str) -> Path:
        """Access to the API server by a token of the account and by nothing else."""
        file = self.folder / f"{account}.kubeconfig"
        if not file.exists():
            config = yaml.safe_load(self.kubectl.kubeconfig.read_text())
            token = self.kubectl("--namespace", self.namespace, "create", "token", account)
            for user in config["users"]:
                user["user"] = {"token": token.strip()}
            file.write_text(yaml.safe_dump(config))
        return file

    def objection(self, account: str, method: str, path: str, body: object = None) -> str:
        """Why the account may not do something; empty if it may. Nothing is done."""
        if account not in self._sessions:
            self._sessions[account] = self._open(account)
        server, session = self._sessions[account]
        answer = session.request(
            method,
            f"{server}{path}?dryRun=All",
            data=None if body is None else json.dumps(body),
            headers={"Content-Type": MERGE_PATCH if method == "PATCH" else JSON},
            timeout=60,
        )
        return "" if answer.ok else str(answer.json()["message"])

    def _open(self, account: str) -> tuple[str, requests.Session]:
        config = load_config(str(self.kubeconfig(account)))
        authority = self.folder / "ca.crt"
        authority.write_bytes(config.ca_pem or b"")
        session = requests.Session()
        # Neither a proxy nor other authorities, whatever this machine has.
        session.trust_env = False
        session.verify = str(authority)
        session.headers["Authorization"] = config.authorization() or ""
        return config.server, session


@contextmanager
def installed_accounts(
    api_server: ApiServer, namespace: str, folder: Path, *values: str
) -> Iterator[Accounts]:
    """Install what the chart renders for the accounts, and take it away again."""
    kubectl = Kubectl(program=api_server.binary("kubectl"), kubeconfig=api_server.kubeconfig)
    # Named for the namespace: test sessions and files share no object of the whole cluster.
    rendered = Chart(helm=api_server.binary("helm")).render(
        *values, release=namespace, namespace=namespace
    )
    bodies = [body for kind in KINDS for body in reversed(list(rendered.of_kind(kind).values()))]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies})
    kubectl("apply", "--filename", "-", stdin=text)
    accounts = Accounts(namespace=namespace, rendered=rendered, kubectl=kubectl, folder=folder)
    try:
        wait_until(lambda: _in_force(accounts), what="the roles and policies to be in force")
        yield accounts
    finally:
        kubectl("delete", "--ignore-not-found", "--wait=false", "--filename", "-", stdin=text)


def _in_force(accounts: Accounts) -> bool:
    """Whether the API server acts on what was applied last, and so on all before."""
    secret = {"metadata": {"name": "di-webhook-tls"}}
    own = accounts.objection(OPERATOR, "POST", SECRETS.path(accounts.namespace), secret)
    jobs = accounts.objection(SERVER, "GET", DIJOBS.path())
    probe = {"metadata": {"name": "probe"}}
    why = accounts.objection(OPERATOR, "POST", CONFIGMAPS.path(accounts.namespace), probe)
    return not own and not jobs and "ValidatingAdmissionPolicy" in why
