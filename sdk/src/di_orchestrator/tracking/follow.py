"""Follow the trackers of this process."""

from __future__ import annotations

import atexit
import threading

from di_orchestrator import current_pod
from di_orchestrator.tracking.after_import import after_import
from di_orchestrator.tracking.forwarder import Forwarder
from di_orchestrator.tracking.libraries import callbacks
from di_orchestrator.training_run.training import FLUSH_SECONDS

_lock = threading.Lock()
_is_following = False


def follow() -> bool:
    """Report what this process logs to TensorBoard, Weights & Biases and MLflow from now on.

    Does nothing outside a job, in processes other than the first one of a group, and when called
    again. Importing a tracker before or after is the same. At the end of the process the last
    report is sent, for five seconds at most.

    Returns whether this process reports.
    """
    global _is_following  # noqa: PLW0603  a process has one
    with _lock:
        if _is_following:
            return True
        sender = current_pod.sender()
        if sender is None:
            return False
        atexit.register(sender.close, FLUSH_SECONDS)
        to = Forwarder(sender.tell, has_own_step=current_pod.is_training)
        after_import(callbacks(to))
        _is_following = True
        return True
