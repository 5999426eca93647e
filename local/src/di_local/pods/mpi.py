"""The way from pod to pod for groups of MPI whose pods are processes of this machine."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from di_api.names import PREFIX_MPI
from di_local.pods import openssh

_PROGRAMS: Final = ("ssh", "sshd", "ssh-keygen")


def is_of_mpi(environment: Mapping[str, str]) -> bool:
    """Return whether a container has the variables of a group of MPI."""
    return any(name.startswith(PREFIX_MPI) for name in environment)


def mpi_variables(folder: Path, *, path: str) -> dict[str, str]:
    """Create a pod's programs of OpenSSH and its temporary directory; return their variables.

    Args:
        folder: the pod's own.
        path: the PATH of the user.
    """
    programs, temporary = folder / "bin", folder / "tmp"
    for each in (programs, temporary):
        each.mkdir(parents=True, exist_ok=True)
    for name in _PROGRAMS:
        command = shlex.join([sys.executable, "-I", str(Path(openssh.__file__)), name])
        (programs / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (programs / name).chmod(0o700)
    return {
        "PATH": f"{programs}:{path}",
        # The script's files are there, and OpenMPI's.
        "TMPDIR": str(temporary),
        # OpenMPI names shared memory by machine and by rank in the pod, so that two pods of one
        # machine would use the same.
        "OMPI_MCA_btl": "self,tcp",
    }
