"""For programs that train in a job of DI Orchestrator: `import di_orchestrator as di`.

Who am I and who are the others (`job`, `peers`, `members`), more or fewer of them (`scale`,
`remove`, `advise`), how far am I (`training`), what do pods say to each other (`Hub`, `call`), how
do I leave well (`leaving`, `Drain`). Outside a job every call works and does nothing harmful.
Importing it has no effect.
"""

from di_orchestrator.current_pod import (
    Training,
    advise,
    client,
    coordinator,
    job,
    leaving,
    members,
    peers,
    remove,
    replicas,
    rollout,
    say,
    scale,
    training,
    watch_members,
    watch_peers,
    watch_worlds,
)
from di_orchestrator.errors import (
    BadEnvironment,
    BadReport,
    CheckpointLost,
    DIError,
    Gone,
    Left,
    NotInJob,
    Refused,
    Unreachable,
)
from di_orchestrator.job import HOLE, PORT, Job, ProcessGroup, World
from di_orchestrator.pods.calls import call
from di_orchestrator.pods.drain import Drain
from di_orchestrator.pods.hub import Asked, Hub, Reply
from di_orchestrator.rollouts.engine import Rollout
from di_orchestrator.server.api import Member, Peer
from di_orchestrator.server.client import Client
from di_orchestrator.server.coordinator import Coordinator, Replicas
from di_orchestrator.training_run.advice import wanted_collectors

__all__ = [
    "HOLE",
    "PORT",
    "Asked",
    "BadEnvironment",
    "BadReport",
    "CheckpointLost",
    "Client",
    "Coordinator",
    "DIError",
    "Drain",
    "Gone",
    "Hub",
    "Job",
    "Left",
    "Member",
    "NotInJob",
    "Peer",
    "ProcessGroup",
    "Refused",
    "Replicas",
    "Reply",
    "Rollout",
    "Training",
    "Unreachable",
    "World",
    "advise",
    "call",
    "client",
    "coordinator",
    "job",
    "leaving",
    "members",
    "peers",
    "remove",
    "replicas",
    "rollout",
    "say",
    "scale",
    "training",
    "wanted_collectors",
    "watch_members",
    "watch_peers",
    "watch_worlds",
]

__version__ = "0.1.0"
