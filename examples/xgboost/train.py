"""Gradient-boosted trees over all pods: each worker has rows of its own, and all get one model."""

from __future__ import annotations

import os
import socket
import time

import numpy as np
import xgboost
from xgboost import collective
from xgboost.tracker import RabitTracker


def main() -> None:
    """Join the other workers and train with them; the first one runs the tracker."""
    task, size = os.environ["DMLC_TASK_ID"], int(os.environ["DMLC_NUM_WORKER"])
    host, port = _address(os.environ["DMLC_TRACKER_URI"]), int(os.environ["DMLC_TRACKER_PORT"])
    tracker = None
    if int(task) == 0:
        tracker = RabitTracker(size, host_ip=host, port=port, sortby="task")
        tracker.start()
    with collective.CommunicatorContext(
        dmlc_tracker_uri=host,
        dmlc_tracker_port=port,
        dmlc_task_id=task,
        dmlc_retry=int(os.environ["DMLC_RETRY"]),
    ):
        rows = np.random.default_rng(int(task)).random((1000, 4))
        data = xgboost.DMatrix(rows, label=rows.sum(axis=1), nthread=1)
        model = xgboost.train({"max_depth": 3, "nthread": 1}, data, num_boost_round=20)
        rank, workers = collective.get_rank(), collective.get_world_size()
        print(f"worker {rank} of {workers}, {model.eval(data)}", flush=True)
    if tracker is not None:
        # The others leave through it: it ends when all have left.
        tracker.wait_for()


def _address(name: str) -> str:
    """The address of the first pod, which has one as soon as it is on a node."""
    while True:
        try:
            return socket.gethostbyname(name)
        except socket.gaierror:
            time.sleep(1)


if __name__ == "__main__":
    main()
