"""The key and the command of the containers of a group of MPI."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_private_key,
)

from di_api.spec import Framework, ProcessGroup, Task, TaskType
from di_certs.ssh_keys import SEED_BYTES, private_key
from di_operator.builders.mpi import mpi_environment, with_mpi


def learner(framework: Framework = Framework.MPI) -> Task:
    group = ProcessGroup(framework=framework)
    return Task(name="learner", type=TaskType.LEARNER, process_group=group, template={})


@pytest.mark.parametrize("first", [0, 1, 255])
def test_a_derived_key_is_one_that_openssh_reads(first: int) -> None:
    seed = bytes([first, *range(1, SEED_BYTES)])
    key = load_ssh_private_key(private_key(seed).encode(), password=None)
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    assert public.startswith(b"ssh-ed25519 ")
    assert private_key(seed) == private_key(seed)


@pytest.mark.proves("security.md#ports-in-the-pods-of-jobs/sshd-of-a-group-of-mpi-port-10314")
def test_each_job_has_an_ssh_key_of_its_own_for_tasks_of_mpi() -> None:
    one, other = (mpi_environment(learner(), secret) for secret in ("one", "other"))
    assert list(one) == list(other) == ["DI_MPI_KEY"]
    assert one != other
    assert mpi_environment(learner(), "one") == one
    assert mpi_environment(learner(Framework.TORCH), "one") == {}
    assert mpi_environment(learner(), None) == {}


def test_the_script_starts_the_command_of_the_main_container_alone() -> None:
    containers: list[dict[str, Any]] = [
        {"name": "sidecar", "command": ["tail"]},
        {"name": "di-container", "command": ["mpirun", "train"], "args": ["--fast"]},
    ]
    sidecar, main = with_mpi(containers, learner())
    assert sidecar == containers[0]
    assert main["command"][:2] == ["/bin/sh", "-c"]
    assert main["command"][3:] == ["di-mpi", "mpirun", "train"]
    assert main["args"] == ["--fast"]
    assert with_mpi(containers, learner(Framework.TORCH)) == containers
    of_image = [{"name": "di-container", "image": "a"}]
    assert with_mpi(of_image, learner()) == of_image
