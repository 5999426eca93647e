"""The page explains a job in the same sentence as `di why`, from what it keeps of the objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from di_api.explain import Facts, explain
from di_dashboard.cluster_cache.trim import slim_event, slim_job, slim_node, slim_pod
from di_kube.packed import unpacked
from tests.unit.api.explain.test_first_lines import CASES

Object = dict[str, Any]
_OWNER = {
    "apiVersion": "diengine.opendilab.org/v2alpha1",
    "kind": "DIJob",
    "name": "cartpole",
    "uid": "uid-cartpole",
    "controller": True,
}


def _kept(facts: Facts) -> Facts:
    """What the page keeps of the objects."""
    return replace(
        facts,
        job=None if facts.job is None else unpacked(slim_job(dict(facts.job))),
        pods=[unpacked(slim_pod(_owned(pod))) for pod in facts.pods],
        events=[slim_event({"metadata": {}, **event}) for event in facts.events],
        nodes=[slim_node(dict(node)) for node in facts.nodes],
    )


def _owned(pod: Mapping[str, Any]) -> Object:
    return {**pod, "metadata": {**pod["metadata"], "ownerReferences": [_OWNER]}}


@pytest.mark.parametrize("name", CASES)
def test_the_page_has_the_same_first_line_as_the_command(name: str) -> None:
    facts = CASES[name].facts
    assert explain(_kept(facts)).summary == explain(facts).summary
