"""A pod of the example finds itself and its learner by the variables of the contract alone."""

from __future__ import annotations

import pytest
from di_cartpole.peers import PORT, Peers

from di_api import names

NODES = [names.pod_fqdn(pod, "x", "rl") for pod in ("x-learner-0", "x-collector-0")]
ENVIRONMENT = {
    names.ENV_RANK: "1",
    names.ENV_NODES: ",".join(NODES),
    names.ENV_TASK_TYPE: "collector",
    names.task_nodes_env("learner"): NODES[0],
    names.ENV_JOB_ID: names.job_id("rl", "x"),
    names.ENV_SERVER_URL: names.server_url("di-system"),
}


def test_a_pod_knows_its_place() -> None:
    peers = Peers.from_environment(ENVIRONMENT)
    assert (peers.rank, peers.task_type, peers.job_id) == (1, "collector", "rl/x")
    assert peers.nodes[peers.rank] == NODES[1]
    assert (peers.token_file, peers.ca_file) == (None, None)


def test_the_learner_is_reached_by_name_on_the_port_of_the_contract() -> None:
    peers = Peers.from_environment(ENVIRONMENT)
    assert peers.learner_url == f"http://{NODES[0]}:{names.DI_PORT}"
    assert PORT == names.DI_PORT


def test_several_learners_are_led_by_the_first() -> None:
    several = {**ENVIRONMENT, names.task_nodes_env("learner"): "first,second"}
    assert Peers.from_environment(several).learner == "first"


def test_a_token_and_authorities_are_used_where_there_are_some() -> None:
    files = {"DI_SERVER_TOKEN_FILE": "/var/run/token", names.ENV_SERVER_CA_FILE: "/var/run/ca"}
    peers = Peers.from_environment({**ENVIRONMENT, **files})
    assert (peers.token_file, peers.ca_file) == ("/var/run/token", "/var/run/ca")


@pytest.mark.parametrize("missing", sorted(ENVIRONMENT))
def test_outside_a_job_the_missing_variable_is_named(missing: str) -> None:
    incomplete = {name: value for name, value in ENVIRONMENT.items() if name != missing}
    with pytest.raises(KeyError, match=missing):
        Peers.from_environment(incomplete)
