"""Parser of the kubeconfig with kubectl's rules: files, contexts, namespaces.

Users with a certificate or a token are parsed here, because the import of the official client takes
a quarter of a second; it handles those with a plug-in or a password.
"""

from __future__ import annotations

import base64
import binascii
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from di_kube.config import SERVICE_ACCOUNT, CachedToken, ConfigError, KubeConfig, load_config
from di_kube.kubeconfig_file import LISTS, BadKubeconfig, missing_user, read_file
from di_kube.proxy import proxy_for

_DEFAULT: Final = "~/.kube/config"
_LEFT_TO_OTHERS: Final = ("exec", "auth-provider", "username")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The API server, the user, and the namespace.

    Attributes:
        config: access to the API server.
        namespace: of the context; "default" if it has none.
        context: its name; empty inside a pod.
    """

    config: KubeConfig
    namespace: str
    context: str


def read_access(context: str | None = None, *, file: Path | None = None) -> Access:
    """Read `file`, else $KUBECONFIG, else ~/.kube/config, else the pod's own service account.

    Raises:
        ConfigError: there is no usable configuration; the message has the file and the fault.
    """
    files = str(file) if file else os.environ.get("KUBECONFIG") or _DEFAULT
    merged = _merged(files)
    if not merged["contexts"] and context is None and (SERVICE_ACCOUNT / "token").is_file():
        namespace = (SERVICE_ACCOUNT / "namespace").read_text().strip()
        return Access(config=load_config(None), namespace=namespace, context="")
    name = context or merged["current-context"]
    found = merged["contexts"].get(name)
    if found is None:
        known = ", ".join(sorted(merged["contexts"])) or "none"
        which = f"no context {name!r}" if name else "no current context"
        raise ConfigError(f"{files}: {which}; contexts there: {known}")
    user_name = found.get("user") or ""
    user = merged["users"].get(user_name)
    if user is None:
        if user_name:
            raise ConfigError(missing_user(files, name, user_name))
        user = {}
    if any(key in user for key in _LEFT_TO_OTHERS):
        config = load_config(os.path.expanduser(files), name)
    else:
        config = _config(merged["clusters"].get(found.get("cluster")), user, f"{files}: {name}")
    return Access(config=config, namespace=found.get("namespace") or "default", context=name)


def context_names() -> list[str]:
    """Return the contexts of the kubeconfig; empty if it is unreadable."""
    try:
        return sorted(_merged(os.environ.get("KUBECONFIG") or _DEFAULT)["contexts"])
    except ConfigError:
        return []


def _merged(files: str) -> dict[str, Any]:
    """Merge all files; the first entry of a name counts, as for kubectl."""
    merged: dict[str, Any] = {"current-context": "", **{key: {} for key in LISTS}}
    for file in files.split(os.pathsep):
        path = Path(os.path.expanduser(file))
        if not file or not path.is_file():
            continue
        try:
            raw = read_file(path)
        except BadKubeconfig as error:
            raise ConfigError(str(error)) from error
        merged["current-context"] = merged["current-context"] or raw.get("current-context") or ""
        for key in LISTS:
            for entry in raw.get(key) or ():
                found = dict(entry.get(key.removesuffix("s")) or {})
                merged[key].setdefault(entry.get("name") or "", _absolute(found, path.parent))
    return merged


def _absolute(entry: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Resolve paths of files relative to the folder of their kubeconfig."""
    paths = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
    return entry | {key: str(folder / entry[key]) for key in paths if entry.get(key)}


def _config(cluster: Mapping[str, Any] | None, user: Mapping[str, Any], where: str) -> KubeConfig:
    if not cluster or not cluster.get("server"):
        raise ConfigError(f"{where}: the context's cluster has no server")
    try:
        return KubeConfig(
            server=str(cluster["server"]).rstrip("/"),
            ca_pem=_bytes(cluster, "certificate-authority"),
            client_cert_pem=_bytes(user, "client-certificate"),
            client_key_pem=_bytes(user, "client-key"),
            authorization=_authorization(user),
            verify=not cluster.get("insecure-skip-tls-verify"),
            tls_server_name=cluster.get("tls-server-name"),
            proxy=proxy_for(cluster["server"], cluster.get("proxy-url"), os.environ),
        )
    except (OSError, ValueError, TypeError, binascii.Error) as error:
        raise ConfigError(f"{where}: {error}") from error


def _bytes(entry: Mapping[str, Any], key: str) -> bytes | None:
    if data := entry.get(f"{key}-data"):
        return base64.b64decode(data, validate=False)
    return Path(entry[key]).read_bytes() if entry.get(key) else None


def _authorization(user: Mapping[str, Any]) -> CachedToken:
    file, token = user.get("tokenFile"), user.get("token")

    def read() -> str | None:
        found = Path(file).read_text().strip() if file else token
        return f"Bearer {found}" if found else None

    return CachedToken(read=read, clock=time.monotonic)
