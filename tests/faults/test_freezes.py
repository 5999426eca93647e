"""Two leaders frozen while jobs start; `python -m tools.faults.freezes` freezes more of them."""

from __future__ import annotations

from pathlib import Path

from di_kube.config import KubeConfig
from tools.faults.freezes.load import Bounds, Moment, freeze_leaders

JOBS = 12
MOMENTS = (Moment(pods=8, delay=0.1), Moment(pods=15, delay=0.2))
# Each process ends in a few seconds if it ends at all; the rest is for a busy machine.
BOUNDS = Bounds(gives_up=180.0, ends=60.0, leads=60.0, jobs_run=180.0)


def test_a_leader_frozen_while_jobs_start_becomes_no_zombie(
    fault_server: KubeConfig, fault_folder: Path
) -> None:
    outcomes = freeze_leaders(fault_server, fault_folder, MOMENTS, jobs=JOBS, bounds=BOUNDS)
    assert not [outcome for outcome in outcomes if outcome.wrong]
