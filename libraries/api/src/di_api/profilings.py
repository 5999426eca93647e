"""The report of a job about itself, `status.profilings`: known keys and their values.

The object is free-form: unknown keys are the job's own. Known keys must be valid: di-server refuses
a report with an invalid one, and the operator ignores one that bypassed di-server.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeGuard

from di_api.field_error import mapping
from di_api.names import ANNOTATION_TRACKING_URL, REPORTED_STEP

MAX_KINDS: Final = 16
"""Maximum number of node types in a report."""
MAX_FAULTS: Final = 64
"""Observations are not read any further after this number of faults, which bounds the work."""
_LONGEST_KIND: Final = 63
"""Maximum length of a label value."""
_LONGEST_PHASE: Final = 63
TRACKING_URL: Final = "trackingURL"
"""The page of the job's run in an experiment tracker."""
_LONGEST_URL: Final = 500
# Neither a script nor what could end an attribute of a page.
_URL: Final = re.compile(r"https?://[^\s\x00-\x1f\x7f\"'<>\\]+")
MOST_NUMBERS: Final = 48
"""Maximum number of numbers that are kept of one report."""
_DEEPEST: Final = 3
_LONGEST_NAME: Final = 120
_LARGEST_KEPT: Final = 1e300
RETURN: Final = "episodeReturn"
"""The return of an episode, under the name that the project's own hooks use."""

_RETURNS: Final = frozenset(
    {
        *("episodereturn", "episodereward", "episodicreturn", "episodicreward"),
        *("episodereturnmean", "episoderewardmean", "meanepisodereturn", "meanepisodereward"),
        *("epreturn", "epreward", "eprewmean", "epretmean", "meanreturn", "meanreward"),
    }
)
"""The return as Stable-Baselines3, RLlib, CleanRL, Spinning Up and DI-engine name it."""
_REWARD: Final = "reward"
"""The mean reward of TRL; elsewhere it can be that of a step."""
_SEPARATORS: Final = re.compile(r"[^0-9a-z]")


def read_profilings(raw: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the known values of a report, and its faults, each with its path.

    The keys are in snake case. Numbers are floats, counts integers, `reported_at` is a time with a
    zone. Objects (`perf_params`, `grad_params`, the items of `observations`, the values of
    `by_kind`) are dicts of the same form. Absent or invalid values are left out.
    """
    wrong: list[str] = []
    found: dict[str, Any] = _read_numbers(_NUMBERS, raw, "", wrong)
    others = {
        "reported_at": _read_time(raw.get("reportedAt"), "reportedAt", wrong),
        "perf_params": _read_object(_PERF, raw.get("perfParams"), "perfParams", wrong),
        "grad_params": _read_object(_GRAD, raw.get("gradParams"), "gradParams", wrong),
        "observations": _read_observations(raw.get("observations"), "observations", wrong),
        "kind": _read_text(raw.get("kind"), "kind", _LONGEST_KIND, wrong),
        "by_kind": _read_by_kind(raw.get("byKind"), "byKind", wrong),
        "phase": _read_text(raw.get("phase"), "phase", _LONGEST_PHASE, wrong),
        "tracking_url": _read_url(raw.get(TRACKING_URL), TRACKING_URL, wrong),
    }
    found.update({key: value for key, value in others.items() if value is not None})
    return found, wrong


@dataclass(frozen=True, slots=True)
class _Number:
    """A finite number within bounds; JSON's true and "1" are not numbers."""

    key: str
    name: str
    least: float = 0.0
    most: float = math.inf
    is_whole: bool = False

    def fault_of(self, value: object) -> str | None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return "must be a number"
        # False for any non-number too; an integer can be too large for a float.
        if not -_LARGEST <= value <= _LARGEST:
            return "must be finite"
        if self.is_whole and value != int(value):
            return "must be a whole number"
        if not self.least <= value <= self.most:
            upper = "" if self.most == math.inf else f" and at most {self.most:g}"
            return f"must be at least {self.least:g}{upper}"
        return None


def _count(key: str, name: str, least: int = 1) -> _Number:
    return _Number(key, name, least, 1e12, is_whole=True)


_LARGEST: Final = 1.7e308
_NUMBERS: Final = (
    _Number("step", "step"),
    _Number("totalSteps", "total_steps"),
    _Number("envSteps", "env_steps"),
    _Number("maxEnvSteps", "max_env_steps"),
    _Number("envStepsPerSec", "env_steps_per_sec"),
    _Number("trainStepsPerSec", "train_steps_per_sec"),
    # A job whose collectors have not started has none.
    _count("collectors", "collectors", least=0),
    _count("learners", "learners"),
    _Number("learnerWaitFrac", "learner_wait_frac", most=1.0),
    _Number("collectorWaitFrac", "collector_wait_frac", most=1.0),
    _Number("gpuIdleFrac", "gpu_idle_frac", most=1.0),
    _count("batchSize", "batch_size"),
    _count("initBatchSize", "init_batch_size"),
    _count("maxBatchSize", "max_batch_size"),
    _count("localBatchMin", "local_batch_min"),
    _count("localBatchMax", "local_batch_max"),
    _Number("samplesPerEnvStep", "samples_per_env_step", 1e-9),
    _Number("restoreSeconds", "restore_seconds"),
    _Number(REPORTED_STEP, "checkpoint_step", is_whole=True),
    _Number("policyLag", "policy_lag"),
    _Number("staleFrac", "stale_frac", most=1.0),
    _count("staleDropped", "stale_dropped", least=0),
    _count("queueDepth", "queue_depth", least=0),
)
# A term of 0 would make its logarithms and ratios infinite; no link takes no time at all.
_PERF: Final = (
    _Number("alphaC", "alpha_c", 1e-12, 1e6),
    _Number("betaC", "beta_c", 1e-12, 1e6),
    _Number("alphaN", "alpha_n", 1e-12, 1e6),
    _Number("betaN", "beta_n", 1e-12, 1e6),
    _Number("alphaR", "alpha_r", 1e-12, 1e6),
    _Number("betaR", "beta_r", 1e-12, 1e6),
    _Number("gamma", "gamma", 1.0, 10.0),
)
_GRAD: Final = (_Number("sqr", "sqr", most=1e300), _Number("var", "var", most=1e300))
_BY_KIND: Final = (
    _count("localBatchMin", "local_batch_min"),
    _count("localBatchMax", "local_batch_max"),
)
_OBSERVATION: Final = (
    _count("nodes", "nodes"),
    _count("replicas", "replicas"),
    _count("samples", "samples"),
    _Number("computing", "computing", 1e-9, 1e6),
    _Number("iteration", "iteration", 1e-9, 1e6),
)


def _read_numbers(
    numbers: Sequence[_Number], raw: Mapping[str, Any], path: str, wrong: list[str]
) -> dict[str, Any]:
    """Return the numbers that are present, by name; faults are appended to `wrong`."""
    found: dict[str, Any] = {}
    for number in numbers:
        value = raw.get(number.key)
        if value is None:
            continue
        if (fault := number.fault_of(value)) is not None:
            wrong.append(f"{path}{number.key}: {fault}")
        else:
            found[number.name] = int(value) if number.is_whole else float(value)
    return found


def _read_object(
    numbers: Sequence[_Number], raw: object, path: str, wrong: list[str]
) -> dict[str, Any] | None:
    """Return an object in which all numbers are present; None if it is absent or invalid."""
    if raw is None:
        return None
    if not isinstance(raw, Mapping):
        wrong.append(f"{path}: must be an object")
        return None
    found = _read_numbers(numbers, raw, f"{path}.", wrong)
    if len(found) == len(numbers):
        return found
    wrong += [f"{path}.{each.key}: is missing" for each in numbers if raw.get(each.key) is None]
    return None


def _read_observations(raw: object, path: str, wrong: list[str]) -> list[dict[str, Any]] | None:
    if raw is None:
        return None
    if not isinstance(raw, list):
        wrong.append(f"{path}: must be a list")
        return None
    found = []
    for index, one in enumerate(raw):
        if len(wrong) >= MAX_FAULTS:
            break
        here = f"{path}[{index}]"
        if one is None:
            wrong.append(f"{here}: must be an object")
        elif (values := _read_object(_OBSERVATION, one, here, wrong)) is not None:
            kind = _read_text(one.get("kind"), f"{here}.kind", _LONGEST_KIND, wrong)
            found.append({**values, **({"kind": kind} if kind else {})})
    return found


def _read_text(raw: object, path: str, longest: int, wrong: list[str]) -> str | None:
    if raw is None:
        return None
    if not isinstance(raw, str) or len(raw) > longest:
        wrong.append(f"{path}: must be a string of at most {longest} characters")
        return None
    return raw


def _read_url(raw: object, path: str, wrong: list[str]) -> str | None:
    if raw is None:
        return None
    if not isinstance(raw, str) or len(raw) > _LONGEST_URL or _URL.fullmatch(raw) is None:
        wrong.append(f"{path}: must be an http or https URL of at most {_LONGEST_URL} characters")
        return None
    return raw


def tracking_url_of(job: Mapping[str, Any]) -> str | None:
    """Return the page of a job's run in an experiment tracker: as reported, else as annotated; None
    without a valid one.
    """
    reported = mapping(mapping(job.get("status")).get("profilings")).get(TRACKING_URL)
    annotations = mapping(mapping(job.get("metadata")).get("annotations"))
    for raw in (reported, annotations.get(ANNOTATION_TRACKING_URL)):
        if (found := _read_url(raw, TRACKING_URL, [])) is not None:
            return found
    return None


def _read_by_kind(raw: object, path: str, wrong: list[str]) -> dict[str, dict[str, Any]] | None:
    if raw is None:
        return None
    if not isinstance(raw, Mapping) or len(raw) > MAX_KINDS:
        wrong.append(f"{path}: must be an object of at most {MAX_KINDS} kinds of nodes")
        return None
    found = {}
    for kind, one in raw.items():
        here = f"{path}.{_read_text(kind, path, _LONGEST_KIND, wrong) or ''}"
        if not isinstance(one, Mapping):
            wrong.append(f"{here}: must be an object")
            continue
        values = _read_numbers(_BY_KIND, one, f"{here}.", wrong)
        perf = _read_object(_PERF, one.get("perfParams"), f"{here}.perfParams", wrong)
        found[kind] = {**values, **({"perf_params": perf} if perf else {})}
    return found


def _read_time(raw: object, path: str, wrong: list[str]) -> datetime | None:
    if raw is None:
        return None
    try:
        # A date alone and the shortest forms of ISO 8601 are not times.
        found = datetime.fromisoformat(raw) if isinstance(raw, str) and "T" in raw else None
    except ValueError:
        found = None
    if found is None:
        wrong.append(f"{path}: must be a time, such as 2026-01-02T03:04:05Z")
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def numbers_of(status: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a job's last report by path, with the steps of its progress.

    Of more than MOST_NUMBERS the first by name are kept.
    """
    progress = mapping(status.get("progress"))
    found = sorted(_numbers_below("", mapping(status.get("profilings")), 0))[:MOST_NUMBERS]
    steps = {name: progress.get(name) for name in ("step", "totalSteps")}
    return {**dict(found), **{name: float(n) for name, n in steps.items() if _is_number(n)}}


def _numbers_below(path: str, value: Any, depth: int) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        if depth < _DEEPEST:
            for key, inner in value.items():
                yield from _numbers_below(f"{path}.{key}" if path else str(key), inner, depth + 1)
    elif _is_number(value) and len(path) <= _LONGEST_NAME:
        yield path, float(value)


def _is_number(value: object) -> TypeGuard[int | float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    # Integers beyond the range of a float are not real values.
    return abs(value) < _LARGEST_KEPT and math.isfinite(value)


def spelled(name: str) -> str:
    """Return a name without case, separators and the section before the last slash."""
    return _SEPARATORS.sub("", name.rpartition("/")[2].lower())


def find_metric(names: Iterable[str], wanted: str) -> str | None:
    """Return the name of a number among those of a report, in whatever spelling; None without one.

    The exact name comes first, then another spelling of it, then another name of the return, and
    the reward last.
    """
    found = [*names]
    if wanted in found:
        return wanted
    word = spelled(wanted)
    others = [name for name in found if spelled(name) == word]
    if not others and wanted == RETURN:
        others = [name for name in found if spelled(name) in _RETURNS]
        others = others or [name for name in found if spelled(name) == _REWARD]
    return min(others, default=None)
