"""The programs of this machine that build and load images, and run helm."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.install.plan import ENGINES, RELEASE, LocalCluster, Step, local_cluster

K3S: Final = Path("/etc/rancher/k3s/k3s.yaml")
"""The kubeconfig of a server of k3s on this machine."""
_SECONDS: Final = 30
_STDERR: Final = 2


def require_helm() -> None:
    """Raise CommandError if helm is not installed."""
    if shutil.which("helm") is None:
        raise CommandError(
            "helm is not on the PATH, and di install runs it",
            remedy="install helm 3.14 or newer; without it docs/how-to/operations.md#without-helm",
        )


def cluster_here(context: str) -> LocalCluster | None:
    """Return the cluster on this machine that the context is of; None for any other one.

    Raises:
        CommandError: the program that loads images into it is missing.
    """
    listed = "" if shutil.which("di-cluster") is None else _output("di-cluster", "list")
    found = local_cluster(context, listed.split(), has_k3s=K3S.exists())
    if found is not None and shutil.which(found.program) is None:
        raise CommandError(
            f"the context {context} is of a cluster of {found.program}, which is not on the PATH",
            remedy="di install --registry REGISTRY, of one that its nodes can pull from",
        )
    return found


def engine_for(target: str | LocalCluster) -> str:
    """Return the program that builds the images: the first one that works.

    Raises:
        CommandError: there is none.
    """
    if isinstance(target, LocalCluster) and target.program == "di-cluster":
        return target.program
    # What kind, k3d, minikube and k3s load is in the store of docker, or of podman.
    engines = ENGINES if isinstance(target, str) else ENGINES[:2]
    installed = [each for each in engines if shutil.which(each)]
    for engine in installed:
        if _succeeds(engine, "info"):
            return engine
    raise CommandError(
        f"no program builds the images: {', '.join(engines)}",
        where=f"{', '.join(installed)}: installed, and `info` fails" if installed else "",
        remedy="install or start one; --no-build if the images are in the registry",
    )


def release_values(context: str, namespace: str) -> Mapping[str, Any] | None:
    """Return the values of the installed release; None if there is none."""
    of_context = ["--kube-context", context] if context else []
    words = ["get", "values", RELEASE, "--namespace", namespace, "--output", "json", *of_context]
    told = _output("helm", *words)
    try:
        found = json.loads(told)
    except ValueError:
        return None
    return found if isinstance(found, dict) else {}


def check(step: Step, folder: Path) -> None:
    """Run a command in the folder, and print nothing of it.

    Raises:
        CommandError: it failed, with what it printed.
    """
    done = subprocess.run(step.words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CommandError(step.purpose, where=done.stderr, remedy=step.remedy)


def do(step: Step, folder: Path) -> None:
    """Run a command in the folder. What it prints goes to stderr.

    Raises:
        CommandError: it failed.
    """
    done = subprocess.run(step.words, cwd=folder, stdout=_STDERR, check=False)
    if done.returncode:
        raise CommandError(
            step.purpose,
            where=f"exit code {done.returncode} of: {step.line}",
            remedy=step.remedy,
        )


def missing(what: str) -> CommandError:
    """Return the error for a registry that is not known, and cannot be asked for."""
    return CommandError(
        f"di install needs {what}",
        remedy="di install --registry registry.example.org/team, of one that the nodes can pull "
        "from",
        code=ExitCode.USAGE,
    )


def _output(*words: str) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _succeeds(*words: str) -> bool:
    try:
        done = subprocess.run(words, capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
