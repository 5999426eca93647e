"""Numbers that a program logs to an experiment tracker, as reports of its job.

`python -m di_orchestrator.tracking train.py --lr 3e-4` runs a program that does not know of its
job. What it logs to TensorBoard, Weights & Biases or MLflow becomes the job's curves, and the page
of the run in a tracker becomes a link. `follow()` does the same for the calling program.

The trackers themselves get everything, as without it.
"""

from __future__ import annotations

from di_orchestrator.tracking.follow import follow

__all__ = ["follow"]
