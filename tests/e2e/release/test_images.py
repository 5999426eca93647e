"""The service images have what they need, and their processes can do nothing but their work."""

from __future__ import annotations

from typing import Any

import pytest

from di_cluster.release import SERVICES, Release
from tests.e2e.kubectl import Kubectl
from tests.e2e.pods import run_in_pod

LEFT_OVERS = """
import json, os, shutil

folders = filter(os.path.exists, ("/build", "/opt/venv/bin/pip", "/opt/app/bin/pip"))
print(json.dumps([*folders, *filter(shutil.which, ("uv", "gcc"))]))
"""
"""Names what only the build of an image needs."""

LIMITS = """
import errno, json, os

def fails_with(folder):
    try:
        open(os.path.join(folder, "probe"), "w").close()
    except OSError as error:
        return errno.errorcode[error.errno]
    os.unlink(os.path.join(folder, "probe"))
    return ""

status = dict(line.split(":\\t", 1) for line in open("/proc/1/status").read().splitlines())
print(json.dumps({
    "users": sorted(set(status["Uid"].split())),
    "groups": sorted(set(status["Gid"].split())),
    "capabilities": int(status["CapBnd"], 16),
    "noNewPrivileges": status["NoNewPrivs"],
    "seccomp": status["Seccomp"],
    "readOnly": bool(os.statvfs("/").f_flag & os.ST_RDONLY),
    "writes": {folder: fails_with(folder) for folder in ("/", "/opt/app", "/tmp")},
}))
"""
"""Tells what the service's own process, number 1, is allowed to do."""


def ask(kubectl: Kubectl, release: Release, service: str, program: str) -> Any:
    return run_in_pod(kubectl, f"deployment/di-{service}", program, namespace=release.namespace)


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_has_nothing_that_only_its_build_needs(
    kubectl: Kubectl, release: Release, service: str
) -> None:
    assert ask(kubectl, release, service, LEFT_OVERS) == []


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_has_no_rights_on_its_node(
    kubectl: Kubectl, release: Release, service: str
) -> None:
    assert ask(kubectl, release, service, LIMITS) == {
        "users": ["65532"],
        "groups": ["65532"],
        "capabilities": 0,
        "noNewPrivileges": "1",
        "seccomp": "2",
        "readOnly": True,
        "writes": {"/": "EROFS", "/opt/app": "EROFS", "/tmp": ""},
    }
