"""Names are what clients and pods were promised."""

from __future__ import annotations

import pytest

from di_api import names
from di_api.validation.names import longest_job_name


@pytest.mark.proves("dijob.md#names")
def test_a_pod_has_a_name_and_a_dns_name() -> None:
    pod = names.pod_name("cartpole", "collector", 2)
    assert pod == "cartpole-collector-2"
    assert names.pod_fqdn(pod, "cartpole", "rl") == (
        "cartpole-collector-2.di-cartpole.rl.svc.cluster.local"
    )
    assert names.pod_fqdn(pod, "cartpole", "rl", "svc.other") == (
        "cartpole-collector-2.di-cartpole.rl.svc.other"
    )


@pytest.mark.proves("roles.md#several-tasks-of-a-type/the-variables-di-task-nodes")
def test_a_task_has_variables_of_its_nodes() -> None:
    assert names.task_nodes_env("replay-buffer") == "DI_REPLAY_BUFFER_NODES"
    assert names.task_nodes_file_env("learner") == "DI_LEARNER_NODES_FILE"


def test_a_job_finds_the_server_by_url_and_id() -> None:
    assert names.job_id("rl", "cartpole") == "rl/cartpole"
    assert names.server_url("di-system") == "http://di-server.di-system.svc.cluster.local:8081"
    assert names.server_url("di-system", tls=True) == (
        "https://di-server.di-system.svc.cluster.local:8443"
    )


@pytest.mark.proves("dijob.md#names")
@pytest.mark.parametrize(
    "tasks",
    [
        [],
        [("a", 1)],
        [("learner", 1)],
        [("learner", 10)],
        [("learner", 11)],
        [("learner", 1), ("collector", 1000)],
        [("learner", 1), ("rollout", 44, 4)],
    ],
)
def test_the_longest_job_name_fits_and_one_more_character_does_not(
    tasks: list[tuple[str, int] | tuple[str, int, int]],
) -> None:
    def last_pods(job: str) -> list[str]:
        return [names.pod_name(job, task, pods - 1, *size) for task, pods, *size in tasks]

    def fits(length: int) -> bool:
        job = "n" * length
        made = [names.service_name(job)]
        return all(len(name) <= 63 for name in (*made, *last_pods(job)))

    longest = longest_job_name(last_pods(""))
    assert fits(longest)
    assert not fits(longest + 1)
