"""What the operator keeps for schedulers: a right for each that the values name, and no others."""

from __future__ import annotations

import pytest

from di_api.spec import GangScheduler
from di_operator.builders.pod_group import KINDS
from tests.chart.chart import Chart, Refused
from tests.chart.test_companions import guarded
from tests.chart.test_rbac import permissions

ALL = "scheduling.gangSchedulers={scheduler-plugins,volcano,kubernetes}"


def pod_groups(chart: Chart, *values: str) -> dict[str, str]:
    found = permissions(chart.render(*values), "di-operator")["*"]
    return {key: verbs for key, verbs in found.items() if key.startswith("podgroups")}


def test_without_gang_schedulers_there_are_no_rights_to_pod_groups(chart: Chart) -> None:
    assert pod_groups(chart) == {}
    assert set(guarded(chart.render())) == {"", "policy"}


@pytest.mark.proves("operations.md#values/scheduling-disruptionbudgets")
def test_the_right_to_disruption_budgets_can_be_removed(chart: Chart) -> None:
    key = "poddisruptionbudgets.policy"
    assert permissions(chart.render(), "di-operator")["*"][key] == "create get patch"
    without = chart.render("scheduling.disruptionBudgets=false")
    assert key not in permissions(without, "di-operator")["*"]
    assert set(guarded(without)) == {""}


@pytest.mark.proves(
    "teams-gangs.md#what-has-to-be-installed", "operations.md#values/scheduling-gangschedulers"
)
def test_each_gang_scheduler_adds_a_right_to_its_pod_groups(chart: Chart) -> None:
    assert pod_groups(chart, ALL) == {
        f"{kind.resource.plural}.{kind.resource.group}": "create get patch"
        for kind in KINDS.values()
    }
    only = KINDS[GangScheduler.VOLCANO].resource
    values = "scheduling.gangSchedulers={volcano}"
    assert pod_groups(chart, values) == {f"{only.plural}.{only.group}": "create get patch"}


def test_pod_groups_must_belong_to_a_job(chart: Chart) -> None:
    found = guarded(chart.render(ALL))
    assert found == guarded(chart.render()) | {
        kind.resource.group: {kind.resource.plural} for kind in KINDS.values()
    }


@pytest.mark.proves("operations.md#values/scheduling-provisioningrequests")
def test_the_right_to_provisioning_requests_follows_the_values(chart: Chart) -> None:
    wanted = {"podtemplates", "provisioningrequests.autoscaling.x-k8s.io"}
    assert not wanted & permissions(chart.render(), "di-operator")["*"].keys()
    rendered = chart.render("scheduling.provisioningRequests=true")
    found = permissions(rendered, "di-operator")["*"]
    assert {found[key] for key in wanted} == {"create get patch"}
    kinds = guarded(rendered)
    assert "podtemplates" in kinds[""]
    assert kinds["autoscaling.x-k8s.io"] == {"provisioningrequests"}


def test_an_unknown_gang_scheduler_is_refused(chart: Chart) -> None:
    with pytest.raises(Refused, match="gangSchedulers"):
        chart.render("scheduling.gangSchedulers={slurm}")
