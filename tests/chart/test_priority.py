"""The PriorityClass of jobs with high priority, and the operator's setting."""

from __future__ import annotations

import pytest

from tests.chart.chart import GIVEN_SECRETS, Chart, Rendered


def told(rendered: Rendered) -> str:
    """The name that the operator gets."""
    found: str = rendered.one("ConfigMap", "di-operator")["data"]["DI_OPERATOR_HIGH_PRIORITY_CLASS"]
    return found


@pytest.mark.proves("operations.md#values/priorityclass", "operations.md#priority")
def test_the_priority_class_never_preempts(chart: Chart) -> None:
    rendered = chart.render()
    (name,) = rendered.of_kind("PriorityClass")
    body = rendered.one("PriorityClass", name)
    assert told(rendered) == name
    assert 0 < body["value"] <= 1_000_000_000
    assert (body["preemptionPolicy"], body.get("globalDefault")) == ("Never", None)


def test_each_release_has_its_priority_class(chart: Chart) -> None:
    names = {told(chart.render(release=release)) for release in ("one", "two")}
    assert len(names) == 2


@pytest.mark.proves("operations.md#values/priorityclass", "operations.md#priority")
@pytest.mark.parametrize(
    ("values", "made", "name"),
    [
        (("priorityClass.name=urgent",), {"urgent"}, "urgent"),
        (("priorityClass.create=false",), set(), ""),
        (("priorityClass.create=false", "priorityClass.name=urgent"), set(), "urgent"),
        (("watchNamespace=team", *GIVEN_SECRETS), set(), ""),
        (("watchNamespace=team", "priorityClass.name=urgent", *GIVEN_SECRETS), set(), "urgent"),
        (
            ("watchNamespace=team", "rbac.allowClusterRoles=true", "priorityClass.name=urgent"),
            {"urgent"},
            "urgent",
        ),
    ],
)
def test_the_priority_class_follows_the_values(
    chart: Chart, values: tuple[str, ...], made: set[str], name: str
) -> None:
    rendered = chart.render(*values)
    assert (set(rendered.of_kind("PriorityClass")), told(rendered)) == (made, name)
