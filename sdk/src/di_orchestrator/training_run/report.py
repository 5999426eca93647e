"""Keys and bounds of a report, and its validation.

They equal those of di-server, which refuses invalid reports; a test compares the two.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from di_orchestrator.errors import BadReport

LARGEST = 1.7e308
LONGEST_TEXT = 63
MAX_OBSERVATIONS = 64
"""Number of last observations that the allocator reads."""


@dataclass(frozen=True)
class Number:
    """A finite number within bounds.

    Attributes:
        key: of the report.
        name: of the argument of `Training.report`.
    """

    key: str
    name: str
    least: float = 0.0
    most: float = math.inf
    is_whole: bool = False

    def fault_of(self, value: object) -> str | None:
        """Return the fault of a value; None: it is valid."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return "must be a number"
        if not -LARGEST <= value <= LARGEST:
            return "must be finite"
        if self.is_whole and value != int(value):
            return "must be a whole number"
        if not self.least <= value <= self.most:
            upper = "" if self.most == math.inf else f" and at most {self.most:g}"
            return f"must be at least {self.least:g}{upper}"
        return None


def _count(key: str, name: str, least: int = 1) -> Number:
    return Number(key, name, least, 1e12, is_whole=True)


NUMBERS = (
    Number("step", "step"),
    Number("totalSteps", "total_steps"),
    Number("envSteps", "env_steps"),
    Number("maxEnvSteps", "max_env_steps"),
    Number("envStepsPerSec", "env_steps_per_sec"),
    Number("trainStepsPerSec", "train_steps_per_sec"),
    _count("collectors", "collectors", least=0),
    _count("learners", "learners"),
    Number("learnerWaitFrac", "learner_wait_frac", most=1.0),
    Number("collectorWaitFrac", "collector_wait_frac", most=1.0),
    Number("gpuIdleFrac", "gpu_idle_frac", most=1.0),
    _count("batchSize", "batch_size"),
    _count("initBatchSize", "init_batch_size"),
    _count("maxBatchSize", "max_batch_size"),
    _count("localBatchMin", "local_batch_min"),
    _count("localBatchMax", "local_batch_max"),
    Number("samplesPerEnvStep", "samples_per_env_step", 1e-9),
    Number("restoreSeconds", "restore_seconds"),
    Number("checkpointStep", "checkpoint_step", is_whole=True),
    Number("policyLag", "policy_lag"),
    Number("staleFrac", "stale_frac", most=1.0),
    _count("staleDropped", "stale_dropped", least=0),
    _count("queueDepth", "queue_depth", least=0),
)
OBSERVATION = (
    _count("nodes", "nodes"),
    _count("replicas", "replicas"),
    _count("samples", "samples"),
    Number("computing", "computing", 1e-9, 1e6),
    Number("iteration", "iteration", 1e-9, 1e6),
)
TEXTS = ("kind", "phase")
TRACKING_URL = "trackingURL"
LONGEST_URL = 500
_URL = re.compile(r"https?://[^\s\x00-\x1f\x7f\"'<>\\]+")
_TRACKING_ARGUMENT = "tracking_url"
_CLOSE = 0.85
"""Similarity of two names, of which one is taken for a misspelling of the other."""
_BY_NAME = {number.name: number for number in NUMBERS}


def keyed(values: Mapping[str, object]) -> dict[str, Any]:
    """Return a report in the form that is sent, from values by their Python names.

    A number of another library (numpy's, a tensor of one element) becomes a Python number. Unknown
    keys keep their name; one of these with a number that is not finite becomes a string, because
    JSON has no such number. None removes an earlier value.

    Raises:
        BadReport: values are invalid; each fault has the path of its key.
    """
    report, faults = checked(values)
    if faults:
        raise BadReport(tuple(faults))
    return report


def checked(values: Mapping[str, object]) -> tuple[dict[str, Any], list[str]]:
    """Return the valid values, as `keyed` does, and the faults of the others."""
    report: dict[str, Any] = {}
    faults: list[str] = []
    for name, raw in values.items():
        value = _plain(raw)
        if name in _BY_NAME:
            report[_BY_NAME[name].key] = value
            continue
        if name == _TRACKING_ARGUMENT:
            report[TRACKING_URL] = value
            continue
        if isinstance(value, float) and not math.isfinite(value):
            value = str(value)
        if _is_json(value):
            report[name] = value
        else:
            faults.append(f"{name}: must be what JSON knows")
    found = faults_of(report)
    bad = {re.split(r"[.:\[]", fault, maxsplit=1)[0] for fault in found}
    return {key: value for key, value in report.items() if key not in bad}, [*found, *faults]


def misspelt(name: str, known: Collection[str]) -> str | None:
    """Return the known name that a program probably means; None: the name is one of its own."""
    names = {*known, *_BY_NAME}
    close = () if name in names else get_close_matches(name, names, n=1, cutoff=_CLOSE)
    return close[0] if close else None


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def faults_of(report: Mapping[str, Any]) -> list[str]:
    """Return the faults of a report, each with its path, with di-server's messages."""
    wrong: list[str] = []
    _check(NUMBERS, report, "", wrong)
    for key in TEXTS:
        value = report.get(key)
        if value is not None and not (isinstance(value, str) and len(value) <= LONGEST_TEXT):
            wrong.append(f"{key}: must be a string of at most {LONGEST_TEXT} characters")
    url = report.get(TRACKING_URL)
    if url is not None and not is_url(url):
        wrong.append(
            f"{TRACKING_URL}: must be an http or https URL of at most {LONGEST_URL} characters"
        )
    observations = report.get("observations")
    if observations is None:
        return wrong
    if not isinstance(observations, list):
        return [*wrong, "observations: must be a list"]
    for index, one in enumerate(observations):
        path = f"observations[{index}]"
        if not isinstance(one, Mapping):
            wrong.append(f"{path}: must be an object")
            continue
        _check(OBSERVATION, one, f"{path}.", wrong)
        missing = [each.key for each in OBSERVATION if one.get(each.key) is None]
        wrong += [f"{path}.{key}: is missing" for key in missing]
    return wrong


def is_url(value: object) -> bool:
    """Return whether a value can be a link to a page of the run."""
    return isinstance(value, str) and len(value) <= LONGEST_URL and bool(_URL.fullmatch(value))


def _check(numbers: Sequence[Number], raw: Mapping[str, Any], path: str, wrong: list[str]) -> None:
    for number in numbers:
        value = raw.get(number.key)
        if value is not None and (fault := number.fault_of(value)) is not None:
            wrong.append(f"{path}{number.key}: {fault}")


def _plain(value: object) -> object:
    """Return a Python value for one that a library has wrapped."""
    item = getattr(value, "item", None)
    if not callable(item):
        return value
    try:
        found: object = item()
    except (TypeError, ValueError, RuntimeError):
        return value  # an array of several
    return found
