"""The key and the script by which the pods of a process group run a program of MPI."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Any, Final

from di_api.names import PREFIX_MPI
from di_api.pods.main_container import main_container
from di_api.spec import Framework, Task
from di_certs.ssh_keys import private_key

Object = Mapping[str, Any]

ENV_KEY: Final = f"{PREFIX_MPI}KEY"
"""Variable with the private key that all pods of the job share, for ssh and for sshd."""
_KEY: Final = b"ssh"


def mpi_environment(task: Task, secret: str | None) -> dict[str, str]:
    """Return the variable with the key; nothing for other frameworks, or without a secret."""
    if not _is_mpi(task) or secret is None:
        return {}
    seed = hmac.new(secret.encode(), _KEY, sha256).digest()
    return {ENV_KEY: private_key(seed)}


def with_mpi(containers: list[dict[str, Any]], task: Task) -> list[dict[str, Any]]:
    """Return the containers of a pod; in a group of MPI the script starts the main one's command.

    A main container without a command is kept: only its image knows the program.
    """
    main = main_container(containers)
    if not _is_mpi(task) or main is None or not main.get("command"):
        return containers
    start = {**main, "command": ["/bin/sh", "-c", _script(), "di-mpi", *main["command"]]}
    return [start if each is main else each for each in containers]


def _is_mpi(task: Task) -> bool:
    return task.process_group is not None and task.process_group.framework is Framework.MPI


@cache
def _script() -> str:
    # Read as text: it runs in the image of the task.
    return resources.files(__package__).joinpath("mpi.sh").read_text("utf-8")
