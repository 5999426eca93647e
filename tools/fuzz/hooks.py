"""Loaded by schemathesis: half of all requests are about jobs that exist.

What it makes from the document alone names jobs that nobody has, and never comes past the first
look-up. The jobs are those of `tools.fuzz.rest`, in the namespace of variable FUZZ_NAMESPACE.
"""

from __future__ import annotations

import os
from typing import Any, Final

import schemathesis
from hypothesis import strategies as st

from tools.fuzz.jobs import COORDINATED, TASKS

_NAMESPACE: Final = os.environ["FUZZ_NAMESPACE"]
_IDS: Final = st.sampled_from([f"{_NAMESPACE}.{TASKS}", f"{_NAMESPACE}.{TASKS}.7"])
_PATHS: Final = {
    "id": _IDS,
    "namespace": st.just(_NAMESPACE),
    "name": st.sampled_from([TASKS, COORDINATED]),
    "task": st.sampled_from(["learner", "collector"]),
    "pod": st.just(f"{TASKS}-0"),
    "dataset": st.sampled_from(["prompts", "frames"]),
}
_COORDINATORS: Final = st.just(f"{COORDINATED}-coordinator")


@schemathesis.hook
def before_generate_path_parameters(
    _context: schemathesis.HookContext, strategy: st.SearchStrategy[Any]
) -> st.SearchStrategy[Any]:
    """The parts of a path that name a job."""
    return strategy.flatmap(lambda found: _either(found, _PATHS))


@schemathesis.hook
def before_generate_query(
    _context: schemathesis.HookContext, strategy: st.SearchStrategy[Any]
) -> st.SearchStrategy[Any]:
    """The query of a coordinator."""
    known = {"namespace": st.just(_NAMESPACE), "coordinator": _COORDINATORS}
    return strategy.flatmap(lambda found: _either(found, known))


@schemathesis.hook
def before_generate_body(
    _context: schemathesis.HookContext, strategy: st.SearchStrategy[Any]
) -> st.SearchStrategy[Any]:
    """The body of a coordinator, or the task of another job."""
    known = {
        "namespace": st.just(_NAMESPACE),
        "coordinator": _COORDINATORS,
        "task": st.sampled_from(["learner", "collector"]),
    }
    return strategy.flatmap(lambda found: _either(found, known))


def _either(found: Any, known: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """What was made, or the same with the fields that it has of the known ones replaced."""
    if not isinstance(found, dict) or not found.keys() & known:
        return st.just(found)
    named = {key: known[key] for key in known if key in found}
    return st.just(found) | st.fixed_dictionaries(named).map(lambda fields: {**found, **fields})
