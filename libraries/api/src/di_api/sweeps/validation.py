"""The rules of a sweep: of its own fields, and of the jobs that it would create."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from di_api.field_error import ABSENT, FieldError, InvalidSpec, items, mapping, unknown_field
from di_api.names import SWEEP_KIND
from di_api.spec import IdleAction
from di_api.spec.reading import read
from di_api.spec.weight import weight_error
from di_api.sweeps.field_path import BadPath, parse_path
from di_api.sweeps.space import SEED, Space, Value, count_of, value_at
from di_api.sweeps.spec import MAX_TRIALS, Parameter, Sampler, SweepSpec, Target
from di_api.sweeps.trial_job import job_with
from di_api.validation.job import MAX_ERRORS, Check, unbounded, validate_job
from di_api.validation.shape import object_errors

Object = Mapping[str, Any]
_TARGETS: Final = ("argument", "environment", "field")
_SETS: Final = ("values", "uniform", "logUniform", "int", "quniform")
_OF_TEMPLATE: Final = ("metadata", "spec")
_OF_METADATA: Final = ("labels", "annotations")
_NOT_OF_TRIALS: Final[Mapping[str, str]] = {
    "suspend": "is how a sweep stops a trial; leave it out",
    "ttlSecondsAfterFinished": "would delete the values of a trial before the sweep ends; "
    "trials are deleted with their sweep",
}
_NOT_OF_POPULATIONS: Final[Mapping[str, str]] = {
    "earlyStopping": "would stop trials that population replaces; use one of them",
    "seeds": "would be compared by their mean; a population compares single trials",
}
_MOST_QUANTILE: Final = 0.5
_TRIED: Final = 8
"""Number of values of one parameter whose jobs are checked: the first ones, or the extremes."""
_LAST: Final = 1 - 1e-9
_TEMPLATE: Final = "spec.template"


def load_sweep(sweep: Object) -> SweepSpec:
    """Return the spec of a sweep.

    Raises:
        InvalidSpec: it breaks rules.
    """
    if errors := validate_sweep(sweep):
        raise InvalidSpec(errors)
    return read(SweepSpec, mapping(sweep.get("spec")), "spec")


def validate_sweep(sweep: Object, check: Check = unbounded) -> list[FieldError]:
    """Return the errors of a sweep, the first ones; empty if it is valid. Accepts any object.

    `check` is called between pieces of work, and raises to end them.
    """
    return [*islice(_errors(sweep, check), MAX_ERRORS)]


def new_sweep_errors(before: Object, sweep: Object, check: Check = unbounded) -> list[FieldError]:
    """Return the errors of a changed sweep that it did not have before."""
    found = validate_sweep(sweep, check)
    known = {(each.path, each.message) for each in validate_sweep(before, check)} if found else ()
    return [each for each in found if (each.path, each.message) not in known]


def _errors(sweep: Object, check: Check) -> Iterator[FieldError]:
    raw = sweep.get("spec")
    if not isinstance(raw, Mapping):
        yield FieldError("spec", ABSENT if raw is None else raw, "must be an object")
        return
    if (error := weight_error(raw)) is not None:
        yield error
        return
    shape = [*islice(_of_shape(raw), MAX_ERRORS)]
    yield from shape
    if shape:
        return
    spec = read(SweepSpec, raw, "spec")
    relations = [*_of_relations(spec, raw)]
    yield from relations
    if not relations:
        yield from _of_jobs(sweep, spec, check)


def _of_shape(raw: Object) -> Iterator[FieldError]:
    yield from object_errors(SweepSpec, raw, "spec")
    template = mapping(raw.get("template"))
    for key in template:
        if key not in _OF_TEMPLATE:
            yield unknown_field(_TEMPLATE, key, template[key], _OF_TEMPLATE)
    if "spec" not in template and isinstance(raw.get("template"), Mapping):
        yield FieldError(f"{_TEMPLATE}.spec", ABSENT, "is required")
    metadata = mapping(template.get("metadata"))
    for key, value in metadata.items():
        if key not in _OF_METADATA:
            yield unknown_field(f"{_TEMPLATE}.metadata", key, value, _OF_METADATA)


def _of_relations(spec: SweepSpec, raw: Object) -> Iterator[FieldError]:
    template = mapping(mapping(raw.get("template")).get("spec"))
    for name, rule in _NOT_OF_TRIALS.items():
        if template.get(name) is not None:
            yield FieldError(f"{_TEMPLATE}.spec.{name}", template[name], rule)
    action = mapping(template.get("idlePolicy")).get("action")
    if action == IdleAction.SUSPEND:
        rule = "would have the sweep wait for a trial that does not run; Notify is possible"
        yield FieldError(f"{_TEMPLATE}.spec.idlePolicy.action", action, rule)
    yield from _of_checkpoint(template, raw)
    listed = [mapping(each) for each in items(raw.get("parameters"))]
    names: set[str] = {SEED} if spec.seeds is not None else set()
    for index, (each, given) in enumerate(zip(spec.parameters, listed, strict=True)):
        path = f"spec.parameters[{index}]"
        if each.name in names:
            yield FieldError(f"{path}.name", each.name, "is the name of another parameter")
        names.add(each.name)
        yield from _of_target(each, given, path, template)
        yield from _of_values(each, given, path)
    if spec.seeds is not None:
        yield from _of_target(spec.seeds, mapping(raw.get("seeds")), "spec.seeds", template)
    yield from _of_population(spec, raw)
    if not spec.parameters and spec.seeds is None and spec.population is None:
        yield FieldError("spec.parameters", ABSENT, "is required, or seeds")
    yield from _of_size(spec)


def _of_checkpoint(template: Object, raw: Object) -> Iterator[FieldError]:
    """Yield the error of a template whose trials would restore each other's checkpoints, and of a
    population without them.
    """
    path = f"{_TEMPLATE}.spec.checkpoint"
    checkpoint = mapping(template.get("checkpoint"))
    if checkpoint and template.get("coordinated") is not None:
        message = "would be shared by all trials: only tasks have a folder for each trial"
        yield FieldError(path, checkpoint, message)
    if not checkpoint and raw.get("population") is not None:
        message = "is required with population: a copy starts from a checkpoint of another trial"
        yield FieldError(path, ABSENT, message)


def _of_population(spec: SweepSpec, raw: Object) -> Iterator[FieldError]:
    rule, path = spec.population, "spec.population"
    if rule is None:
        return
    for name, message in _NOT_OF_POPULATIONS.items():
        if raw.get(name) is not None:
            yield FieldError(f"spec.{name}", raw[name], message)
    if spec.sampler is Sampler.GRID:
        message = "a population draws its first trials; use Random or QuasiRandom"
        yield FieldError("spec.sampler", spec.sampler.value, message)
    if not spec.parameters:
        yield FieldError("spec.parameters", ABSENT, "is required: copies have other parameters")
    if spec.parallelism < rule.size:
        message = f"must be at least population.size, which is {rule.size}: its trials run together"
        yield FieldError("spec.parallelism", spec.parallelism, message)
    if spec.max_trials is not None and spec.max_trials < rule.size:
        message = f"must be at least population.size, which is {rule.size}"
        yield FieldError("spec.maxTrials", spec.max_trials, message)
    if rule.quantile > _MOST_QUANTILE:
        yield FieldError(f"{path}.quantile", rule.quantile, "must be 0.5 or less")
    if rule.perturbation >= 1:
        yield FieldError(f"{path}.perturbation", rule.perturbation, "must be below 1")
    if not 0 <= rule.resample <= 1:
        yield FieldError(f"{path}.resample", rule.resample, "must be from 0 to 1")


def _of_target(target: Target, given: Object, path: str, template: Object) -> Iterator[FieldError]:
    found = [name for name in _TARGETS if given.get(name) is not None]
    if len(found) != 1:
        shown = " and ".join(found) or "none of them"
        yield FieldError(path, given, f"must have one of {', '.join(_TARGETS)}; it has {shown}")
        return
    if target.field is not None:
        try:
            parse_path(target.field)
        except BadPath as error:
            yield FieldError(f"{path}.field", target.field, str(error))
    if target.task is None:
        return
    tasks = [mapping(each) for each in items(template.get("tasks"))]
    if target.field is not None:
        yield FieldError(f"{path}.task", target.task, "is not for a field, whose path has the task")
    elif target.task not in [each.get("name") or each.get("type") for each in tasks]:
        yield FieldError(f"{path}.task", target.task, "is no task of the template")


def _of_values(parameter: Parameter, given: Object, path: str) -> Iterator[FieldError]:
    found = [name for name in _SETS if given.get(name) is not None]
    if len(found) != 1:
        shown = " and ".join(found) or "none of them"
        yield FieldError(path, given, f"must have one of {', '.join(_SETS)}; it has {shown}")
        return
    (name,) = found
    if name == "values":
        if not parameter.values:
            yield FieldError(f"{path}.values", [], "must hold at least one value")
        return
    between = parameter.uniform or parameter.log_uniform or parameter.int_ or parameter.quniform
    assert between is not None, "one of them is present"
    if between.min >= between.max:
        message = f"must be above min, which is {between.min:g}"
        yield FieldError(f"{path}.{name}.max", between.max, message)
    elif parameter.log_uniform is not None and between.min <= 0:
        yield FieldError(f"{path}.{name}.min", between.min, "must be above 0")


def _of_size(spec: SweepSpec) -> Iterator[FieldError]:
    space = Space(spec)
    if spec.population is not None:
        return
    if not space.is_finite and spec.max_trials is None:
        yield FieldError("spec.maxTrials", ABSENT, f"is required with sampler {spec.sampler}")
    if space.is_finite:
        for index, each in enumerate(spec.parameters):
            if count_of(each) is None:
                message = "has no finite number of values for a Grid; use values, int or quniform"
                yield FieldError(f"spec.parameters[{index}]", ABSENT, message)
                return
    if space.size > MAX_TRIALS:
        message = f"is required: the grid has {space.size} trials, more than {MAX_TRIALS}"
        yield FieldError("spec.maxTrials", ABSENT, message)
    if spec.max_trials is not None and spec.max_trials % space.seeds:
        message = f"must be a multiple of seeds.count, which is {space.seeds}"
        yield FieldError("spec.maxTrials", spec.max_trials, message)


def _of_jobs(sweep: Object, spec: SweepSpec, check: Check) -> Iterator[FieldError]:
    """Yield the errors of the last job, whose name is the longest, and of those in which one
    parameter has another value.
    """
    space = Space(spec)
    last = space.last_index
    usual = space.parameters(space.size - 1)
    named = mapping(sweep.get("metadata"))
    if not isinstance(named.get("name"), str):
        yield FieldError("metadata.name", named.get("name", ABSENT), "must be a name, a string")
        return
    try:
        tried = [
            (path, value, {error.path: error for error in _of_job(job, check)})
            for path, value, job in _tried(sweep, spec, last, usual)
        ]
    except BadPath as bad:
        yield FieldError(_path_of(sweep, spec, usual), ABSENT, str(bad))
        return
    # What every job has is of the template, the rest of the parameter whose value makes it.
    common = set.intersection(*(set(errors) for _, _, errors in tried))
    yield from (replace(e, path=_of(e)) for where, e in tried[0][2].items() if where in common)
    known = set(common)
    for path in dict.fromkeys(path for path, _, _ in tried if path):
        own = [(value, errors) for at, value, errors in tried if at == path]
        for value, errors in own:
            for where, error in errors.items():
                if where not in known and any(where not in others for _, others in own):
                    known.add(where)
                    yield FieldError(path, value, f"is not possible: {_of(error)}: {error.message}")


def _of_job(job: Object, check: Check) -> list[FieldError]:
    check()
    return validate_job(job)


def _of(error: FieldError) -> str:
    """Return the path of an error of a job in the sweep."""
    is_name = error.path.startswith("metadata")
    return error.path if is_name else f"{_TEMPLATE}.{error.path}"


def _tried(
    sweep: Object, spec: SweepSpec, trial: int, usual: Mapping[str, Value]
) -> Iterator[tuple[str, Value, Object]]:
    """Yield jobs, with the path and the value of the parameter that was changed in each; without
    one first.
    """
    yield "", "", job_with(sweep, spec, trial, usual)
    for index, each in enumerate(spec.parameters):
        count = len(each.values) or 2
        for number in range(min(count, _TRIED)):
            place = (number + 0.5) / count if each.values else number * _LAST
            value = value_at(each, place)
            job = job_with(sweep, spec, trial, {**usual, each.name: value})
            yield f"spec.parameters[{index}]", value, job


def _path_of(sweep: Object, spec: SweepSpec, usual: Mapping[str, Value]) -> str:
    """Return the path of the first target that leads to nothing in the template."""
    targets: list[tuple[str, Target]] = [
        (f"spec.parameters[{index}].field", each) for index, each in enumerate(spec.parameters)
    ]
    for number, (path, _) in enumerate(targets):
        alone = replace(spec, parameters=spec.parameters[: number + 1], seeds=None)
        try:
            job_with(sweep, alone, 0, usual)
        except BadPath:
            return path
    return "spec.seeds.field"


def is_sweep(document: object) -> bool:
    """Return whether a document is a sweep, of any version."""
    return mapping(document).get("kind") == SWEEP_KIND
