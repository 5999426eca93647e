"""What the operator tells a pod about its job, from the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

PORT = 22270
"""The port `di-port` of every pod of a DIJob."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """One pod's view of its job, which is as small however many pods it has.

    Attributes:
        task_type: learner or collector.
        name: of the pod.
        learner: where the learner is reached: the Service of its task.
        job_id: `<namespace>/<name>` of the job.
        server_url: where di-server answers.
        token_file: file with the pod's token for di-server; None where tokens are not used.
        ca_file: file with the authorities to know di-server by; None where it is not https.
    """

    task_type: str
    name: str
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
            task_type=environment["DI_TASK_TYPE"],
            name=f"{environment['DI_TASK_NAME']}-{environment['DI_TASK_RANK']}",
            learner=f"http://{environment['DI_LEARNER_SERVICE']}",
            job_id=environment["DI_JOB_ID"],
            server_url=environment["DI_SERVER_URL"],
            token_file=environment.get("DI_SERVER_TOKEN_FILE"),
            ca_file=environment.get("DI_SERVER_CA_FILE"),
        )
