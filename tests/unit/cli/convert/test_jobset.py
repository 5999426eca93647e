"""JobSets become DIJobs with a task for each replicated job."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api.validation import validate_job
from di_cli.convert.fields import RefusedManifest
from tests.unit.cli.convert.manifests import (
    WORDS,
    Object,
    convert_one,
    lost,
    manifests,
    outcome,
    some,
    template,
)

_VERSION = "jobset.x-k8s.io/v1alpha2"
_POD = {"spec": {"containers": [{"name": "main", "image": "x"}]}}


def jobs(name: str = "a", *, replicas: int = 1, depends: Any = None, **spec: Any) -> Object:
    """A replicated job."""
    found = {"name": name, "replicas": replicas, "template": {"spec": {"template": _POD, **spec}}}
    return found if depends is None else {**found, "dependsOn": depends}


def jobset(*replicated: Object, **spec: Any) -> Object:
    """A JobSet of these replicated jobs."""
    top = {"apiVersion": _VERSION, "kind": "JobSet", "metadata": {"name": "j"}}
    return {**top, "spec": {"replicatedJobs": [*replicated], **spec}}


def spec_of(manifest: Object) -> Object:
    found: Object = convert_one(manifest).job["spec"]
    return found


def rules_of(manifest: Object) -> list[Object]:
    """The failure rules after the one about disruptions."""
    first: Object
    others: list[Object]
    first, *others = spec_of(manifest)["failurePolicy"]["rules"]
    assert first == {"onConditions": ["DisruptionTarget"], "action": "Ignore"}
    return others


def comments(manifest: Object) -> list[str]:
    return [each.path for each in convert_one(manifest).comments]


@pytest.mark.proves("from-other-operators.md#jobset/*")
@pytest.mark.parametrize(
    ("replicated", "sizes"),
    [
        (jobs(), {"replicas": 1}),
        (jobs(replicas=3), {"replicas": 3}),
        (jobs(parallelism=4, completions=4), {"replicas": 4}),
        (jobs(replicas=3, parallelism=4), {"replicas": 3, "podsPerReplica": 4}),
        (jobs(parallelism=4, completions=2), {"replicas": 2}),
    ],
)
def test_a_replicated_job_is_a_task_of_its_pods(replicated: Object, sizes: Object) -> None:
    (task,) = spec_of(jobset(replicated))["tasks"]
    assert task == {"type": "none", "name": "a", **sizes, "template": _POD}


def test_without_a_failure_policy_the_limit_is_that_of_each_job() -> None:
    manifest = jobset(jobs(backoffLimit=2, activeDeadlineSeconds=60))
    (task,) = spec_of(manifest)["tasks"]
    assert (task["backoffLimit"], task["activeDeadlineSeconds"]) == (2, 60)
    assert rules_of(manifest) == [{"tasks": ["a"], "action": "Restart"}]
    assert comments(manifest) == []


def test_a_failure_policy_restarts_all_within_its_limit() -> None:
    manifest = jobset(jobs(backoffLimit=0), failurePolicy={"maxRestarts": 3})
    assert spec_of(manifest)["backoffLimit"] == 3
    assert "backoffLimit" not in spec_of(manifest)["tasks"][0]
    assert rules_of(manifest) == [{"action": "RestartJob"}]
    assert comments(manifest) == ["spec.replicatedJobs[0].template.spec.backoffLimit"]


@pytest.mark.parametrize(
    ("rule", "found", "commented"),
    [
        ({"action": "FailJobSet"}, {"action": "FailJob"}, ""),
        ({"action": "RestartJobSetAndIgnoreMaxRestarts"}, {"action": "RestartJob"}, ".action"),
        (
            {"action": "RestartJob", "targetReplicatedJobs": ["one"]},
            {"tasks": ["one"], "action": "RestartTask"},
            "",
        ),
        (
            {"action": "RestartJob", "targetReplicatedJobs": ["many"]},
            {"tasks": ["many"], "action": "Restart"},
            "",
        ),
        (
            {"action": "FailJobSet", "onJobFailureReasons": ["BackoffLimitExceeded"]},
            {"action": "FailJob"},
            ".onJobFailureReasons",
        ),
        ({"action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]}, None, "whole"),
        ({"action": "FailJobSet", "onJobFailureMessagePatterns": ["x"]}, None, "whole"),
    ],
)
def test_a_rule_about_jobs_is_one_about_failed_pods(
    rule: Object, found: Object | None, commented: str
) -> None:
    replicated = (jobs("one", parallelism=2), jobs("many", replicas=2, parallelism=2))
    manifest = jobset(*replicated, failurePolicy={"rules": [rule]})
    others = [] if found is not None and "tasks" not in found else [{"action": "RestartJob"}]
    assert rules_of(manifest) == [*([] if found is None else [found]), *others]
    place = "spec.failurePolicy.rules[0]"
    wanted = [place] if commented == "whole" else [place + commented] if commented else []
    assert comments(manifest) == wanted


def test_rules_after_one_about_all_failures_are_in_comments() -> None:
    rules: list[Object] = [
        {"action": "FailJobSet", "targetReplicatedJobs": ["a"]},
        {"action": "RestartJobSet"},
        {"action": "FailJobSet"},
    ]
    manifest = jobset(jobs(), failurePolicy={"rules": rules})
    assert rules_of(manifest) == [{"tasks": ["a"], "action": "FailJob"}, {"action": "RestartJob"}]
    assert comments(manifest) == ["spec.failurePolicy.rules[2]"]


def test_success_is_that_of_the_target_jobs() -> None:
    policy = {"operator": "Any", "targetReplicatedJobs": ["b"]}
    found = spec_of(jobset(jobs(), jobs("b"), successPolicy=policy))["successPolicy"]
    assert found == {"tasks": ["b"], "operator": "Any"}
    found = spec_of(jobset(jobs(), jobs("b"), successPolicy={"operator": "All"}))["successPolicy"]
    assert found == {"tasks": ["a", "b"], "operator": "All"}
    assert "successPolicy" not in spec_of(jobset(jobs()))


def test_an_order_of_start_is_dependencies() -> None:
    in_order = jobset(jobs(), jobs("b"), startupPolicy={"startupPolicyOrder": "InOrder"})
    after = jobset(jobs(), jobs("b", depends=[{"name": "a", "status": "Ready"}]))
    for manifest in (in_order, after):
        assert [each.get("dependsOn") for each in spec_of(manifest)["tasks"]] == [None, ["a"]]


@pytest.mark.parametrize(
    ("replicated", "spec", "place"),
    [
        (jobs(parallelism=1, completions=5), {}, "replicatedJobs[0].template.spec.completions"),
        (
            jobs(depends=[{"name": "b", "status": "Complete"}]),
            {},
            "replicatedJobs[0].dependsOn[0].status",
        ),
        (jobs(), {"volumeClaimPolicies": [{}]}, "volumeClaimPolicies"),
        (jobs(), {"failurePolicy": {"rules": [{"action": "x"}]}}, "failurePolicy.rules[0].action"),
        (jobs(replicas=0), {}, "replicatedJobs"),
    ],
)
def test_what_a_dijob_cannot_do_is_refused(replicated: Object, spec: Object, place: str) -> None:
    with pytest.raises(RefusedManifest) as refused:
        convert_one(jobset(replicated, **spec))
    assert refused.value.place == f"spec.{place}"
    assert refused.value.remedy


def _manifests() -> st.SearchStrategy[Object]:
    job = some(
        {"template": template("main", "")},
        {
            **{"backoffLimit": st.just(161), "activeDeadlineSeconds": st.just(162)},
            **{"completionMode": st.just("Indexed"), "ttlSecondsAfterFinished": st.just(163)},
            **{"parallelism": st.just(5), "completions": st.just(5)},
            "podFailurePolicy": st.just({"rules": []}),
        },
    )
    outer = some({"spec": job}, {"metadata": st.just({"labels": {"a": "b"}})})
    sizes: Object = {"replicas": st.just(6), "groupName": WORDS}
    depends = st.just([{"name": "first", "status": "Ready"}])
    first = some({"name": st.just("first"), "template": outer}, sizes)
    second = some({"name": st.just("second"), "template": outer}, {**sizes, "dependsOn": depends})
    targets = st.just(["second"])
    rule = some(
        {
            "action": st.sampled_from(
                ["FailJobSet", "RestartJob", "RestartJobSetAndIgnoreMaxRestarts"]
            )
        },
        {
            **{"name": WORDS, "targetReplicatedJobs": targets},
            "onJobFailureReasons": st.sampled_from(
                [["DeadlineExceeded"], ["BackoffLimitExceeded"]]
            ),
            "onJobFailureMessagePatterns": st.lists(WORDS, min_size=1, max_size=1),
        },
    )
    failure = some(
        {},
        {
            **{"maxRestarts": st.just(164), "restartStrategy": st.just("Recreate")},
            "rules": st.lists(rule, max_size=2),
        },
    )
    success = some({"operator": st.sampled_from(["All", "Any"])}, {"targetReplicatedJobs": targets})
    network = some({}, {"subdomain": WORDS, "enableDNSHostnames": st.just(True)})
    startup = some({"startupPolicyOrder": st.sampled_from(["AnyOrder", "InOrder"])}, {})
    spec = some(
        {"replicatedJobs": st.tuples(first, second).map(list)},
        {
            **{"failurePolicy": failure, "successPolicy": success, "network": network},
            **{
                "startupPolicy": startup,
                "suspend": st.just(True),
                "ttlSecondsAfterFinished": st.just(165),
            },
            **{
                "managedBy": st.sampled_from(
                    ["jobset.sigs.k8s.io/jobset-controller", "example.org/x"]
                )
            },
            "coordinator": st.just({"replicatedJob": "first", "podIndex": 0}),
        },
    )
    return manifests("JobSet", spec, _VERSION)


@given(_manifests())
def test_no_field_of_a_jobset_is_lost(manifest: Object) -> None:
    for replicated in manifest["spec"]["replicatedJobs"]:
        job = replicated["template"]["spec"]
        # Fewer pods at once than completions are refused.
        if "completions" in job:
            job["parallelism"] = job["completions"]
    found = outcome(manifest)
    assert not isinstance(found, str), found
    assert lost(manifest, found) == []
    assert validate_job(found.job) == []
