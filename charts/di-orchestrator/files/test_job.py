"""Submit a DIJob and wait until it has succeeded. Standard library alone; runs inside the cluster.

Exit code 0: it succeeded. 1: it failed, was refused or did not end in time; the last status is
printed. The job is deleted in every case.
"""

import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
NOT_FOUND = 404


def call(method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """One request to the API server; raises HTTPError for anything but 2xx."""
    request = urllib.request.Request(
        f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:"
        f"{os.environ['KUBERNETES_SERVICE_PORT']}/apis/diengine.opendilab.org/v2alpha1/{path}",
        method=method,
        data=json.dumps(body).encode() if body is not None else None,
        headers={
            "Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}",
            "Content-Type": "application/json",
        },
    )
    context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    with urllib.request.urlopen(request, timeout=10, context=context) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def remove(path: str, deadline: float) -> None:
    """Delete the job, if it is there, and wait until it is gone."""
    while time.monotonic() < deadline:
        try:
            call("DELETE", path)
        except urllib.error.HTTPError as error:
            if error.code == NOT_FOUND:
                return
            raise
        time.sleep(0.5)
    sys.exit(f"{path} of an earlier test does not go away")


def follow(path: str, deadline: float) -> dict[str, Any]:
    """Print each phase as it comes; return the last status seen."""
    phase = None
    status: dict[str, Any] = {}
    while time.monotonic() < deadline:
        status = call("GET", path).get("status", {})
        if status.get("phase") != phase:
            phase = status.get("phase")
            print(phase, flush=True)
        if phase in {"Succeeded", "Failed"}:
            break
        time.sleep(0.5)
    return status


def main() -> None:
    """Run the test within TEST_TIMEOUT_SECONDS."""
    job = json.loads(os.environ["TEST_JOB"])
    deadline = time.monotonic() + float(os.environ["TEST_TIMEOUT_SECONDS"])
    jobs = f"namespaces/{job['metadata']['namespace']}/dijobs"
    path = f"{jobs}/{job['metadata']['name']}"
    remove(path, deadline)
    try:
        call("POST", jobs, job)
        status = follow(path, deadline)
    except urllib.error.HTTPError as error:
        sys.exit(f"{error}: {error.read().decode(errors='replace')}")
    finally:
        remove(path, time.monotonic() + 20)
    if status.get("phase") != "Succeeded":
        sys.exit(f"not succeeded: {json.dumps(status, indent=2)}")


main()
