"""The command lines of kubectl, which has the connections to pods."""

from __future__ import annotations

import shutil

from di_cli.access.kubeconfig import Access
from di_cli.errors import CommandError


def command_line(access: Access, namespace: str, words: list[str]) -> list[str]:
    """Return a command line of kubectl, for the context and the namespace of a session."""
    context = ["--context", access.context] if access.context else []
    return ["kubectl", *context, "--namespace", namespace, *words]


def kubectl(command: list[str]) -> str:
    """Return the path of kubectl. Raises CommandError if there is none."""
    program = shutil.which("kubectl")
    if program is None:
        raise CommandError(
            "kubectl is not on the PATH, and this command leaves the connection to it",
            remedy="install kubectl; then " + " ".join(command),
        )
    return program
