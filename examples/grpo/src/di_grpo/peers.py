"""What the operator tells a pod about its job, from the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

PORT = 22270
"""The port `di-port` of every pod of a DIJob."""
JUDGE_PORT = 8000


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """One pod's view of its job.

    Attributes:
        task: name of the pod's task.
        index: the pod's own position in its task.
        pod: its name.
        url: where the others reach it.
        learners: the address of every learner by position.
        engines: how many rollout engines there were when this pod was made.
        learner_service: where the learners are reached, whichever of them answers.
        judge_service: the same of the judge.
        job_id: `<namespace>/<name>` of the job.
        server_url: where di-server answers.
        token_file: file with the pod's token for di-server; None where tokens are not used.
        ca_file: file with the authorities to know di-server by; None where it is not https.
    """

    task: str
    index: int
    pod: str
    url: str
    learners: tuple[str, ...]
    engines: int
    learner_service: str
    judge_service: str
    job_id: str
    server_url: str
    token_file: str | None
    ca_file: str | None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read the variables of the contract.

        Raises:
            KeyError: a variable is missing: the program does not run inside a DIJob.
        """
        nodes = environment["DI_NODES"].split(",")
        return cls(
            task=environment["DI_TASK_NAME"],
            index=int(environment["DI_TASK_RANK"]),
            pod=environment["HOSTNAME"],
            url=f"http://{nodes[int(environment['DI_RANK'])]}:{PORT}",
            learners=tuple(environment["DI_LEARNER_NODES"].split(",")),
            engines=len(environment["DI_ROLLOUT_NODES"].split(",")),
            learner_service=f"http://{environment['DI_LEARNER_SERVICE']}",
            judge_service=f"http://{environment['DI_JUDGE_SERVICE']}",
            job_id=environment["DI_JOB_ID"],
            server_url=environment["DI_SERVER_URL"],
            token_file=environment.get("DI_SERVER_TOKEN_FILE"),
            ca_file=environment.get("DI_SERVER_CA_FILE"),
        )

    @property
    def first_learner(self) -> str:
        """The learner that has the weights; the others compute gradients for it."""
        return f"http://{self.learners[0]}:{PORT}"
