"""Finding policies: those that come along, a user's own, and what is said when it fails."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from di_operator.allocator.grants.checked_plan import make_plan
from di_operator.allocator.policies.goodput import GoodputPolicy
from di_operator.allocator.policies.registry import (
    GROUP,
    PolicyError,
    installed_policies,
    load_policy,
)
from tests.unit.allocator.worlds import counts, elastic, nodes

OWN = '''
class FirstNode:
    """Puts everybody on one node."""

    def __init__(self, *, node: str) -> None:
        if not node:
            raise ValueError("node must not be empty")
        self.node = node

    def allocate(self, job, nodes):
        from di_operator.allocator.model.job import NodeList
        return NodeList(tuple((task.name, (self.node,) * task.replicas) for task in job.tasks))

    def optimize(self, jobs, nodes, previous):
        return {key: self.allocate(job, nodes) for key, job in jobs.items()}

class NoPolicy:
    """Has nothing a policy needs."""

not_callable = 3
'''


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Installs a package the way pip does: a module, and metadata that names its entry points."""

    def installed(**entries: str) -> None:
        (tmp_path / "own_policy.py").write_text(OWN)
        (tmp_path / "broken_policy.py").write_text("import a_module_nobody_has\n")
        info = tmp_path / "own_policy-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-policy\nVersion: 1.0\n")
        lines = "".join(f"{name} = {value}\n" for name, value in entries.items())
        (info / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}")
        monkeypatch.syspath_prepend(str(tmp_path))
        for module in ("own_policy", "broken_policy"):
            monkeypatch.delitem(sys.modules, module, raising=False)

    return installed


def test_the_bundled_policies_are_installed() -> None:
    assert {"fit", "binpack", "goodput"} <= {entry.name for entry in installed_policies()}
    assert isinstance(load_policy("goodput", {"growth": 2.0}), GoodputPolicy)


@pytest.mark.proves("allocation.md#a-policy-of-your-own")
def test_a_users_own_policy_is_found_by_its_entry_point(install: Callable[..., None]) -> None:
    install(first="own_policy:FirstNode")

    policy = load_policy("first", {"node": "n7"})

    assert type(policy).__name__ == "FirstNode"
    assert policy.optimize({}, {}, {}) == {}


@pytest.mark.proves("allocation.md#a-policy-of-your-own")
def test_the_example_of_the_documentation_is_a_policy(
    tmp_path: Path, install: Callable[..., None]
) -> None:
    text = (Path(__file__).parents[3] / "docs/explanation/allocation.md").read_text()
    example = text.partition("```python\n")[2].partition("```")[0]
    install(**{"oldest-only": "own_policy:OldestOnly"})
    (tmp_path / "own_policy.py").write_text(example)
    jobs = {key: elastic(key, age=age) for key, age in (("young", 1.0), ("old", 2.0))}

    policy = load_policy("oldest-only", {"node": "n000"})
    plan = make_plan(policy.optimize(jobs, nodes(2, gpu=4), {}), jobs, nodes(2, gpu=4), {})

    assert not plan.refused
    assert counts(plan.allocations) == {"young": 0, "old": 1}


@pytest.mark.proves("operations.md#values/operator-allocator-policy-arguments")
@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("godput", {}, r"policy godput is not installed .*did you mean goodput\?"),
        ("first", {"nodes": 3}, r"policy first: .*node.*; it takes \(\*, node: .*str.*\)"),
        ("first", {"node": ""}, "policy first: node must not be empty"),
        ("broken", {}, "policy broken: broken_policy:Policy cannot be loaded: .*a_module_nobody"),
        ("absent", {}, "policy absent: own_policy:Absent cannot be loaded"),
        ("nothing", {}, "policy nothing: own_policy:NoPolicy has no method allocate or optimize"),
        ("three", {}, "policy three: own_policy:not_callable cannot be called"),
        ("goodput", {"growth": 1}, "policy goodput: growth must be more than 1"),
        ("goodput", {"horizon_seconds": 10}, "policy goodput: restart_seconds must be"),
        ("goodput", {"decay": -1}, "policy goodput: decay must be"),
        ("goodput", {"fairness": 0}, "policy goodput: fairness must be"),
        ("goodput", {"silence_seconds": 0}, "policy goodput: silence_seconds must be"),
        ("goodput", {"priority_weight": 0.5}, "policy goodput: priority_weight must be"),
        ("goodput", {"growth": "much"}, "policy goodput: "),
    ],
)
def test_an_unusable_policy_is_refused_with_the_reason(
    install: Callable[..., None], name: str, arguments: dict[str, object], message: str
) -> None:
    install(
        first="own_policy:FirstNode",
        broken="broken_policy:Policy",
        absent="own_policy:Absent",
        nothing="own_policy:NoPolicy",
        three="own_policy:not_callable",
    )

    with pytest.raises(PolicyError, match=message):
        load_policy(name, arguments)


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group=GROUP)


def test_two_policies_of_one_name_are_an_error() -> None:
    fit = entry("fit", "di_operator.allocator.policies.best_fit:FitPolicy")

    assert load_policy("fit", {}, installed=lambda: [fit, fit])
    with pytest.raises(PolicyError, match="policy fit is registered more than once"):
        load_policy("fit", {}, installed=lambda: [fit, entry("fit", "elsewhere:FitPolicy")])
