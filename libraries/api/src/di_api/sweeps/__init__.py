"""Sweeps: jobs of one template that differ in their parameters, and which of them go on.

Everything here is a pure function. `spec` declares the fields of a DISweep, `validation` checks
them, `space` and `sampling` return the parameters of each trial, `trial_job` its job. `decide`
returns which trials to create, to stop and to copy, from the jobs alone, so that a controller that
ends at any line continues where it was.
"""

from di_api.sweeps.decide import Decision, count_created, decide
from di_api.sweeps.population import missing_checkpoints
from di_api.sweeps.space import Space, SweepTooSmall
from di_api.sweeps.spec import EarlyStopping, Goal, Population, Sampler, SweepSpec
from di_api.sweeps.summary import Summary, summarize
from di_api.sweeps.trial import Trial, read_trial, rungs_text
from di_api.sweeps.trial_job import checkpoint_name, copy_job, trial_job, trial_name
from di_api.sweeps.validation import load_sweep, new_sweep_errors, validate_sweep

__all__ = [
    "Decision",
    "EarlyStopping",
    "Goal",
    "Population",
    "Sampler",
    "Space",
    "Summary",
    "SweepSpec",
    "SweepTooSmall",
    "Trial",
    "checkpoint_name",
    "copy_job",
    "count_created",
    "decide",
    "load_sweep",
    "missing_checkpoints",
    "new_sweep_errors",
    "read_trial",
    "rungs_text",
    "summarize",
    "trial_job",
    "trial_name",
    "validate_sweep",
]
