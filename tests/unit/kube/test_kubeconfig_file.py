"""A kubeconfig of odd types is an error with file and path, wherever it is read."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from di_cli.access.kubeconfig import read_access
from di_kube.config import ConfigError, load_config

GOOD: dict[str, Any] = {
    "current-context": "x",
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "rl"}}],
    "clusters": [{"name": "c", "cluster": {"server": "https://example:6443"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
}


def _with(path: str, value: object) -> dict[str, Any]:
    found = deepcopy(GOOD)
    *parents, last = (int(part) if part.isdecimal() else part for part in path.split("/"))
    owner: Any = found
    for part in parents:
        owner = owner[part]
    owner[last] = value
    return found


def _errors(tmp_path: Path, content: object) -> list[str]:
    """What commands say of a kubeconfig, and what services do."""
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(content))
    found = [
        _error(lambda: read_access(file=file)),
        _error(lambda: load_config(str(file))),
    ]
    assert all(error.startswith(str(file)) for error in found if error)
    return found


def _error(read: Callable[[], object]) -> str:
    try:
        read()
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("contexts", {"x": {}}, "contexts: "),
        ("users", "u", "users: "),
        ("clusters/0", ["c"], "clusters[0]: "),
        ("contexts/0/name", 7, "contexts[0].name: 7: must be text: put it in quotes"),
        ("current-context", 7, "current-context: 7: must be text"),
        ("contexts/0/context", ["c"], "contexts[0].context: "),
        ("contexts/0/context/user", 1.5, "contexts[0].context.user: "),
        ("contexts/0/context/namespace", ["rl"], "contexts[0].context.namespace: "),
        ("clusters/0/cluster/server", {"url": 1}, "clusters[0].cluster.server: "),
        ("clusters/0/cluster/insecure-skip-tls-verify", "yes", "insecure-skip-tls-verify: "),
        ("clusters/0/cluster/certificate-authority-data", 3, "certificate-authority-data: "),
        ("clusters/0/cluster/proxy-url", 3128, "clusters[0].cluster.proxy-url: 3128"),
        ("users/0/user", [], "users[0].user: "),
        ("users/0/user/token", 12345, "users[0].user.token: "),
        ("users/0/user/exec", "aws", "users[0].user.exec: "),
        ("users/0/user/exec", {"args": "x"}, "users[0].user.exec.args: "),
        ("users/0/user/exec", {"command": "x", "env": [1]}, "users[0].user.exec.env[0]: "),
    ],
)
def test_a_field_of_another_type_is_named_with_its_file(
    tmp_path: Path, path: str, value: object, where: str
) -> None:
    for error in _errors(tmp_path, _with(path, value)):
        assert where in error


@pytest.mark.parametrize("content", [["x"], 3, "text"])
def test_a_file_that_is_no_map_is_refused(tmp_path: Path, content: object) -> None:
    assert all("must be a map" in error for error in _errors(tmp_path, content))


def test_a_user_or_cluster_that_is_missing_is_named(tmp_path: Path) -> None:
    for users in ([], None, [{"name": "v", "user": {}}]):
        assert all("user 'u'" in error for error in _errors(tmp_path, _with("users", users)))
    assert all(_errors(tmp_path, _with("clusters", None)))


def test_a_good_kubeconfig_is_read_by_both(tmp_path: Path) -> None:
    assert _errors(tmp_path, GOOD) == ["", ""]


_ODD = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
_PLACES = st.sampled_from(
    [
        *("current-context", "contexts", "contexts/0", "contexts/0/name", "contexts/0/context"),
        *("contexts/0/context/cluster", "contexts/0/context/user", "clusters", "clusters/0"),
        *("clusters/0/name", "clusters/0/cluster", "clusters/0/cluster/server", "users"),
        *("clusters/0/cluster/certificate-authority", "clusters/0/cluster/tls-server-name"),
        *("clusters/0/cluster/certificate-authority-data", "clusters/0/cluster/proxy-url"),
        *("users/0", "users/0/name", "users/0/user", "users/0/user/token"),
        *("users/0/user/client-certificate-data", "users/0/user/tokenFile"),
    ]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_PLACES, _ODD)
def test_any_value_anywhere_is_read_or_refused_with_the_file(
    tmp_path: Path, path: str, value: object
) -> None:
    _errors(tmp_path, _with(path, value))
