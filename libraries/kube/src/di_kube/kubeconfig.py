"""Reading of kubeconfig files with the official client.

The official client follows all rules of kubectl (merged files, contexts, exec plug-ins); only its
result is kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubernetes.client import Configuration
from kubernetes.config import load_kube_config
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION, KubeConfigMerger

from di_kube.kubeconfig_file import BadKubeconfig, missing_user, read_file

_KEY = "BearerToken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubeconfig:
    """The content of the files for one API server and one user.

    Attributes:
        authorization: reads the Authorization header's value from its file or plug-in, and raises
            OSError if it is not readable at the moment; None: there is none.
        The others are as those of `di_kube.config.KubeConfig`.
    """

    server: str
    ca_pem: bytes | None
    client_cert_pem: bytes | None = field(repr=False)
    client_key_pem: bytes | None = field(repr=False)
    authorization: Callable[[], str | None] | None = field(repr=False)
    verify: bool
    tls_server_name: str | None
    proxy_url: str | None = None
    """Proxy named for the cluster; the environment can name another one."""


def read_kubeconfig(files: str | None, context: str | None) -> Kubeconfig:
    """Read a file, or several as in $KUBECONFIG; None or empty means kubectl's default files.

    Raises the many error types of the official loader, and BadKubeconfig for a field of a wrong
    type.
    """
    found = Configuration()
    files = files or KUBE_CONFIG_DEFAULT_LOCATION
    for file in filter(None, files.split(os.pathsep)):
        if (path := Path(os.path.expanduser(file))).is_file():
            read_file(path)
    load_kube_config(  # type: ignore[no-untyped-call]  # untyped library
        config_file=files, context=context, client_configuration=found, persist_config=False
    )
    return Kubeconfig(
        server=found.host.rstrip("/"),
        ca_pem=_read(found.ssl_ca_cert),
        client_cert_pem=_read(found.cert_file),
        client_key_pem=_read(found.key_file),
        authorization=_authorization(found, _token_file(files, context)),
        verify=found.verify_ssl,
        tls_server_name=getattr(found, "tls_server_name", None),
        proxy_url=_proxy_url(files, context),
    )


def _authorization(found: Any, token_file: str | None) -> Callable[[], str | None] | None:
    if token_file is not None:
        path = Path(token_file)
        return lambda: f"Bearer {path.read_text().strip()}"
    if _KEY in found.api_key:
        # The official client's hook runs an exec plug-in again once its token has expired.
        return lambda: _ask_plugin(found)
    return None


def _proxy_url(files: str, context: str | None) -> str | None:
    """Return the cluster's `proxy-url`, which not every version of the official loader reads."""
    merged = KubeConfigMerger(files).config  # type: ignore[no-untyped-call]  # untyped library
    active = merged["contexts"].get_with_name(context or merged["current-context"])["context"]
    named: str | None = (
        merged["clusters"].get_with_name(active["cluster"])["cluster"].safe_get("proxy-url")
    )
    return named


def _token_file(files: str, context: str | None) -> str | None:
    """Return the user's `tokenFile`, which the official loader reads only once."""
    merged = KubeConfigMerger(files).config  # type: ignore[no-untyped-call]  # untyped library
    active = merged["contexts"].get_with_name(context or merged["current-context"])["context"]
    if not active.safe_get("user"):
        return None
    users = merged["users"] if merged.safe_get("users") else None
    user = None if users is None else users.get_with_name(active["user"], safe=True)
    if user is None:
        name = context or merged["current-context"]
        raise BadKubeconfig(missing_user(files, name, active["user"]))
    if not user.safe_get("user"):
        return None
    token_file = user["user"].safe_get("tokenFile")
    if token_file is None:
        return None
    return os.path.join(os.path.dirname(user.path or ""), token_file)


def _ask_plugin(found: Any) -> str | None:
    try:
        value: str | None = found.get_api_key_with_prefix(_KEY)
    except ConfigException as error:
        raise OSError(str(error)) from error
    return value


def _read(path: str | None) -> bytes | None:
    return Path(path).read_bytes() if path else None
