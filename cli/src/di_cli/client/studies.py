"""Trials that an Optuna study chooses, by its ask and tell; Optuna itself is the program's."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from di_api.phase import Phase
from di_api.sweeps import Goal, Space, SweepSpec, read_trial
from di_api.sweeps.spec import Parameter
from di_api.sweeps.trial_job import job_with
from di_cli.actions.sweep import checked, sweep_in, with_parallelism
from di_cli.client.errors import BadCall, EndedOtherwise, JobsError, NotFound, raised
from di_cli.client.job import Job

Object = dict[str, Any]
_POLL_SECONDS: Final = 0.5


@dataclass(slots=True)
class _Running:
    """A trial of the study, and its job.

    Attributes:
        step: last step whose value the study has.
    """

    asked: Any
    job: Job
    step: float = -1.0


def optimize(
    study: Any,
    what: str | Path | Mapping[str, Any],
    *,
    parallelism: int | None,
    submit: Callable[[Object], Job],
    end: Callable[[Job], object],
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Run a sweep's trials with the parameters that a study asks for, until all have ended.

    Args:
        study: of Optuna.
        what: file of a sweep's manifest, or the manifest.
        parallelism: trials at the same time, in place of the manifest's number.
        submit: creates the job of a trial.
        end: ends the job of a trial that the study prunes, and of all trials after an error.
        pause: waits for some seconds.

    Raises:
        JobsError: the sweep breaks rules, does not go with the study, or too many trials failed.
    """
    with raised(None, None):
        given = what if isinstance(what, Mapping) else sweep_in(str(what))
        manifest = with_parallelism(given, parallelism)
        spec = checked(manifest)
    _check(spec, study)
    distributions = _distributions(spec)
    states = import_module("optuna.trial").TrialState
    size, asked, failed = Space(spec).size, 0, 0
    running: list[_Running] = []
    try:
        while asked < size or running:
            while asked < size and len(running) < spec.parallelism:
                trial = study.ask(fixed_distributions=distributions)
                asked += 1
                try:
                    job = submit(job_with(manifest, spec, trial.number, trial.params))
                except BaseException:
                    study.tell(trial, state=states.FAIL)
                    raise
                running.append(_Running(trial, job))
            for each in tuple(running):
                state = _advance(study, each, spec, end, states)
                if state is not None:
                    running.remove(each)
                    failed += state is states.FAIL
            if failed > spec.max_failed_trials:
                raise EndedOtherwise(
                    f"{failed} trials have failed, more than maxFailedTrials",
                    remedy="di why, with the name of one of them",
                )
            pause(_POLL_SECONDS)
    finally:
        for each in running:
            study.tell(each.asked, state=states.FAIL)
            end(each.job)


def _advance(
    study: Any, each: _Running, spec: SweepSpec, end: Callable[[Job], object], states: Any
) -> Any:
    """Tell the study what a trial has reported; return its state if it has ended."""
    try:
        each.job.refresh()
    except NotFound:
        study.tell(each.asked, state=states.FAIL)
        return states.FAIL
    trial = read_trial(each.job.manifest, spec, datetime.now(UTC))
    value = None if trial is None else trial.value
    step = None if trial is None else trial.step
    if value is not None and step is not None and step > each.step:
        each.step = step
        each.asked.report(value, int(step))
    if each.job.is_over:
        has_value = each.job.phase == Phase.SUCCEEDED and value is not None
        state = states.COMPLETE if has_value else states.FAIL
        study.tell(each.asked, value if has_value else None, state=state)
        return state
    if value is not None and each.asked.should_prune():
        end(each.job)
        study.tell(each.asked, state=states.PRUNED)
        return states.PRUNED
    return None


def _check(spec: SweepSpec, study: Any) -> None:
    """Refuse what a study decides by itself. Raises BadCall."""
    directions = [str(each.name) for each in study.directions]
    wanted = "MAXIMIZE" if spec.objective.goal is Goal.MAXIMIZE else "MINIMIZE"
    if directions != [wanted]:
        raise BadCall(
            f"the study has the directions {', '.join(directions)}, and the sweep {wanted}",
            remedy="spec.objective.goal, or optuna.create_study(direction=...)",
        )
    if spec.early_stopping is not None:
        raise BadCall(
            "spec.earlyStopping does not go with a study, whose pruner stops trials",
            remedy="leave it out, and give the study a pruner",
        )
    if spec.population is not None:
        raise BadCall("spec.population does not go with a study, which chooses all parameters")
    if spec.seeds is not None:
        raise BadCall("spec.seeds does not go with a study, which has one value for each trial")


def _distributions(spec: SweepSpec) -> dict[str, Any]:
    """Return the parameters as Optuna's distributions. Raises JobsError without Optuna."""
    try:
        found = import_module("optuna.distributions")
    except ImportError as error:
        raise JobsError("Optuna is not installed", remedy="pip install optuna") from error
    return {each.name: _distribution(each, found) for each in spec.parameters}


def _distribution(parameter: Parameter, optuna: Any) -> Any:
    if parameter.int_ is not None:
        whole = parameter.int_
        high = whole.max - (whole.max - whole.min) % whole.step
        return optuna.IntDistribution(whole.min, high, step=whole.step)
    if parameter.log_uniform is not None:
        return optuna.FloatDistribution(
            parameter.log_uniform.min, parameter.log_uniform.max, log=True
        )
    if parameter.quniform is not None:
        stepped = parameter.quniform
        return optuna.FloatDistribution(stepped.min, stepped.max, step=stepped.step)
    if parameter.uniform is not None:
        return optuna.FloatDistribution(parameter.uniform.min, parameter.uniform.max)
    return optuna.CategoricalDistribution(parameter.values)
