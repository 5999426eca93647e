"""Programs as a pod has them: with the files and variables of a ServiceAccount.

A kubeconfig is read by the official client, some 20 MiB of it, which no pod loads.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from di_kube.client import KubeClient
from di_kube.config import SERVICE_ACCOUNT, KubeConfig
from di_kube.errors import NotFound
from di_kube.resources import SERVICE_ACCOUNTS
from di_kube.sync import SyncKubeClient
from tests.integration.service_accounts import granted_everywhere, token_of
from tests.waiting import wait_until_async

NAMESPACE, NAME = "default", "benchmark"
HOURS = 12
_EVERYTHING = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
# /run is the process's own from here on; what it had is of no use to these programs.
_MOUNT = (
    f'mount -t tmpfs none /run && mkdir -p {SERVICE_ACCOUNT} && cp "$0"/* {SERVICE_ACCOUNT}'
    ' && exec "$@"'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account at an API server.

    Attributes:
        folder: with its token and the authority of the API server.
        environment: where that is.
    """

    folder: Path
    environment: Mapping[str, str]

    @classmethod
    def kept(cls, folder: Path, *, server: str, authority: bytes, token: str) -> Self:
        """The account that this token is of; `folder` is made, `server` is a URL."""
        folder.mkdir()
        (folder / "token").write_text(token)
        (folder / "ca.crt").write_bytes(authority)
        url = urlsplit(server)
        environment = {
            "KUBECONFIG": "",
            "KUBERNETES_SERVICE_HOST": str(url.hostname),
            "KUBERNETES_SERVICE_PORT": str(url.port),
        }
        return cls(folder=folder, environment=environment)

    def command(self, program: Sequence[str]) -> list[str]:
        """Runs a program as that; the process keeps its id."""
        return ["unshare", "--mount", "sh", "-c", _MOUNT, str(self.folder), *program]


@asynccontextmanager
async def account(client: KubeClient, config: KubeConfig, folder: Path) -> AsyncIterator[Account]:
    """An account that may do everything for as long as the block lasts.

    Args:
        client: may give rights.
        config: of the client, where the API server is.
        folder: of the account's files; is made.
    """
    body = {"metadata": {"name": NAME}}

    async def is_made() -> bool:
        try:
            await client.create(SERVICE_ACCOUNTS, body, NAMESPACE)
        except NotFound:
            return False  # the namespace is made a moment after the API server is ready
        return True

    await wait_until_async(is_made, what="an account")
    with SyncKubeClient(config=config) as kube:
        token = token_of(kube, NAMESPACE, NAME, seconds=HOURS * 3600)
    assert config.ca_pem is not None
    kept = Account.kept(folder, server=config.server, authority=config.ca_pem, token=token)
    async with granted_everywhere(client, NAMESPACE, NAME, NAME, _EVERYTHING):
        yield kept
