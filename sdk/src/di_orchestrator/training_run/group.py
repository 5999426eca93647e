"""The process group of a training: who saves, and the agreement on when to save and to stop."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from di_orchestrator.errors import BadEnvironment
from di_orchestrator.job import Job
from di_orchestrator.pods.proof import secret_of
from di_orchestrator.termination import Leaving
from di_orchestrator.training_run.checkpoint import Checkpoints
from di_orchestrator.training_run.checkpoint_files import CheckpointFiles, Write
from di_orchestrator.training_run.first_process import FirstProcess
from di_orchestrator.training_run.follower import Follower
from di_orchestrator.training_run.place import PORT, Place

log = logging.getLogger("di_orchestrator")

LEFT_SECONDS = 60.0
"""Seconds after the group has stopped within which each of its pods gets SIGTERM."""
LEFT_CODE = 143
"""Exit code of a process of a group that has stopped, if its own pod does not have to leave."""


class Group:
    """The processes of the group of this pod; a program without one is a group by itself.

    The thread that enters the training agrees with the other processes. Other threads get what
    holds for this process.

    Args:
        place: of this process; None without a group.
    """

    def __init__(
        self, job: Job, place: Place | None, checkpoints: Checkpoints, leaving: Leaving
    ) -> None:
        self._job = job
        self._place = place
        self._checkpoints = checkpoints
        self._leaving = leaving
        self._thread: int | None = None
        self._member: FirstProcess | Follower | None = None
        self._has_stopped = False
        # The groups of other replicas train the same model.
        is_first_replica = not (job.replica_leader and job.replica_index)
        self._shares = place is not None and is_first_replica
        self.saves = place is None or (place.rank == 0 and is_first_replica)

    def join(self) -> None:
        """Connect the processes.

        Raises:
            BadEnvironment: the first process cannot listen on the port of the group.
        """
        place = self._place
        if place is None:
            return
        secret, self._thread = secret_of(self._job.environment), threading.get_ident()
        if place.rank:
            self._member = Follower(place, secret, lambda: self._leaving.is_asked)
        else:
            try:
                self._member = FirstProcess(place, secret, lambda: self._leaving.is_asked)
            except OSError as error:
                raise BadEnvironment(
                    f"the first process of the group cannot listen on port {place.port}: {error}; "
                    f"does another program? A port of the task named {PORT} is used in its place"
                ) from None
        self._checkpoints.agree = self._is_due

    def end(self, *, has_failed: bool) -> None:
        """Disconnect from the other processes.

        Raises:
            SystemExit: the group stops because another pod has to leave. This one is replaced
                with it, and has not succeeded.
        """
        if self._member is None:
            return
        self._checkpoints.agree = None
        member, self._member = self._member, None
        member.close()
        if not self._has_stopped or has_failed or not self._job.is_inside:
            return
        if not self._leaving.is_asked and not self._leaving.event.wait(LEFT_SECONDS):
            log.warning("the group has stopped, and this pod was not asked to leave: exit code 143")
            raise SystemExit(LEFT_CODE)

    @property
    def stops(self) -> bool:
        """Return whether to stop: the answer of the first process, or in another thread this
        one's.
        """
        if not self._agrees:
            return self._leaving.is_asked
        assert self._member is not None
        self._has_stopped = self._has_stopped or self._member.stops()
        return self._has_stopped

    def save(self, step: int, write: Write, *, shards: bool) -> bool:
        """See `Training.save`."""
        files = self._checkpoints.files
        if not shards or files is None or self._member is None or not self._shares:
            return self._save_alone(step, _in_folder(write) if shards else write)
        self._checkpoints.passed()
        if isinstance(self._member, Follower):
            return _save_part(self._member, files, write)
        if not _save_first(self._member, files, step, write):
            return False
        self._checkpoints.completed(step)
        return True

    def _save_alone(self, step: int, write: Write) -> bool:
        if self.saves:
            return self._checkpoints.save(step, write)
        self._checkpoints.passed()
        return self._checkpoints.folder is not None

    @property
    def _agrees(self) -> bool:
        return self._member is not None and threading.get_ident() == self._thread

    def _is_due(self, own: bool) -> bool:
        if not self._agrees:
            return own
        if isinstance(self._member, FirstProcess):
            return self._member.is_due(own)
        assert self._member is not None
        # The interval of the first process is that of all.
        return self._member.is_due(self._checkpoints.is_asked)


def _save_first(member: FirstProcess, files: CheckpointFiles, step: int, write: Write) -> bool:
    part = files.begin_shards(step)
    member.open(step)
    is_complete = False
    try:
        write(part)
        if member.all_have_written():
            files.complete_shards(step)
            is_complete = True
    finally:
        # Others can still be writing: the next save removes an incomplete folder.
        member.shut(step, is_complete=is_complete)
    return is_complete


def _save_part(member: Follower, files: CheckpointFiles, write: Write) -> bool:
    if (step := member.opened()) is None:
        return False
    is_written = False
    try:
        files.write_shard(step, write)
        is_written = True
    finally:
        member.wrote(is_complete=is_written)
    return member.is_complete(step)


def _in_folder(write: Write) -> Write:
    def write_in(folder: Path) -> None:
        folder.mkdir()
        write(folder)

    return write_in
