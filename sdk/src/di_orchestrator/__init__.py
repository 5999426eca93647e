"""Python package for programs that train in a job of DI Orchestrator: `import di_orchestrator as
di`.

It covers identity and peers (`job`, `peers`, `members`), scaling (`scale`, `remove`, `advise`),
progress reports (`training`), data shards (`shards`), requests between pods (`Hub`, `call`), and an
orderly end (`leaving`, `Drain`). Outside a job every call works and does nothing harmful. The
import has no side effects.
"""

from di_orchestrator.current_pod import (
    Training,
    advise,
    client,
    coordinator,
    group_changed,
    heartbeat,
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
from di_orchestrator.data_shards.shards import Shard, Shards, shards
from di_orchestrator.errors import (
    AnswersFailed,
    BadEnvironment,
    BadReport,
    BadRequest,
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
from di_orchestrator.pods.hub import Hub
from di_orchestrator.pods.messages import Asked, Reply
from di_orchestrator.rollouts.engine import Rollout
from di_orchestrator.server.api import Member, Peer
from di_orchestrator.server.client import Client
from di_orchestrator.server.coordinator import Coordinator, Replicas
from di_orchestrator.training_run.advice import wanted_collectors

__all__ = [
    "HOLE",
    "PORT",
    "AnswersFailed",
    "Asked",
    "BadEnvironment",
    "BadReport",
    "BadRequest",
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
    "Shard",
    "Shards",
    "Training",
    "Unreachable",
    "World",
    "advise",
    "call",
    "client",
    "coordinator",
    "group_changed",
    "heartbeat",
    "job",
    "leaving",
    "members",
    "peers",
    "remove",
    "replicas",
    "rollout",
    "say",
    "scale",
    "shards",
    "training",
    "wanted_collectors",
    "watch_members",
    "watch_peers",
    "watch_worlds",
]

__version__ = "0.1.0"
