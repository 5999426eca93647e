"""Who this pod is and where its peers are, from the variables that every pod of a DIJob gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

PORT = 22270
"""The port `di-port` of every pod of a DIJob."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """One pod's view of its job.

    Attributes:
        rank: the pod's own position in `nodes`.
        nodes: the address of every pod of the job when this one started, by rank.
        task_type: learner, collector or evaluator.
        learner: address of the learner.
        job_id: `<namespace>/<name>` of the job.
        server_url: where di-server answers.
        token_file: file with the pod's token for di-server; None where tokens are not used.
        ca_file: file with the authorities to know di-server by; None where it is not https.
    """

    rank: int
    nodes: tuple[str, ...]
    task_type: str
    learner: str
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
        return cls(
            rank=int(environment["DI_RANK"]),
            nodes=tuple(environment["DI_NODES"].split(",")),
            task_type=environment["DI_TASK_TYPE"],
            learner=environment["DI_LEARNER_NODES"].split(",")[0],
            job_id=environment["DI_JOB_ID"],
            server_url=environment["DI_SERVER_URL"],
            token_file=environment.get("DI_SERVER_TOKEN_FILE"),
            ca_file=environment.get("DI_SERVER_CA_FILE"),
        )

    @property
    def learner_url(self) -> str:
        return f"http://{self.learner}:{PORT}"
