"""Reads that a test repeats while it waits, over one connection.

Each kubectl is a process that reads the discovery documents and shakes hands: a tenth of a second
of processor time, several times a second, beside what the test waits for.
"""

from __future__ import annotations

import json
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import urllib3

from di_api.names import API_VERSION
from di_cluster.errors import CommandFailed
from di_kube.config import KubeConfig, load_config

_GROUPS: Final = {"pods": "/api/v1", "dijobs": f"/apis/{API_VERSION}"}
"""What tests wait for, and where the API server has it."""
_SELECTOR: Final = "--selector="


def is_simple(words: tuple[str, ...]) -> bool:
    """Return whether these arguments of `kubectl get` are read here: pods or DIJobs, by name or by
    a selector.
    """
    kind, *others = words
    return _plural(kind) in _GROUPS and (
        not others or (len(others) == 1 and _is_name_or_selector(others[0]))
    )


def read(kubeconfig: Path, words: tuple[str, ...], namespace: str, seconds: float) -> Any:
    """Return what `kubectl get --output json` prints of simple arguments.

    Raises:
        CommandFailed: as kubectl does.
    """
    kind, *others = words
    plural = _plural(kind)
    path = f"{_GROUPS[plural]}/namespaces/{namespace}/{plural}"
    if others and not others[0].startswith(_SELECTOR):
        return _without_managers(json.loads(_get(kubeconfig, f"{path}/{others[0]}", seconds)))
    query = {"labelSelector": others[0].removeprefix(_SELECTOR)} if others else {}
    found = json.loads(_get(kubeconfig, f"{path}?{urlencode(query)}", seconds))
    shared = {"apiVersion": found["apiVersion"], "kind": found["kind"].removesuffix("List")}
    return {**found, "items": [{**shared, **_without_managers(each)} for each in found["items"]]}


def read_log(kubeconfig: Path, pod: str, namespace: str, seconds: float) -> str:
    """Return what the only container of a pod has printed.

    Raises:
        CommandFailed: as kubectl does, and if the pod has more containers.
    """
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
    return _get(kubeconfig, path, seconds).decode(errors="replace")


def _get(kubeconfig: Path, path: str, seconds: float) -> bytes:
    config, pool = _connection(kubeconfig, kubeconfig.stat().st_mtime_ns)
    token = config.authorization()
    try:
        response = pool.request(
            "GET",
            f"{config.server}{path}",
            headers={"Authorization": token} if token else {},
            timeout=seconds,
            retries=False,
        )
    except urllib3.exceptions.HTTPError as error:
        raise CommandFailed(command=f"GET {path}", reason=str(error), output="") from error
    if response.status == HTTPStatus.OK:
        return response.data
    raise CommandFailed(
        command=f"GET {path}", reason=f"status {response.status}", output=_said(response.data)
    )


def _said(body: bytes) -> str:
    """Return kubectl's line about a refusal of the API server."""
    try:
        status = json.loads(body)
        return f"Error from server ({status['reason']}): {status['message']}"
    except (ValueError, LookupError):
        return body.decode(errors="replace")


@cache
def _connection(kubeconfig: Path, changed: int) -> tuple[KubeConfig, urllib3.PoolManager]:
    """Return the connection by a kubeconfig, a new one after each change of the file."""
    config = load_config(str(kubeconfig))
    return config, urllib3.PoolManager(maxsize=4, ssl_context=config.ssl_context())


def _plural(kind: str) -> str:
    return f"{kind.removesuffix('s')}s"


def _is_name_or_selector(word: str) -> bool:
    return word.startswith(_SELECTOR) or word[0] != "-"


def _without_managers(found: dict[str, Any]) -> dict[str, Any]:
    found["metadata"].pop("managedFields", None)
    return found
