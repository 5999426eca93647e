"""Jobs of Volcano become DIJobs with the same tasks."""

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

_VERSION = "batch.volcano.sh/v1alpha1"


def task(name: str = "a", *, restart: str | None = None, **fields: Any) -> Object:
    """A task with one container."""
    policy = {} if restart is None else {"restartPolicy": restart}
    pod = {"spec": {"containers": [{"name": "main", "image": "x"}], **policy}}
    return {"name": name, "replicas": 1, "template": pod, **fields}


def job(*tasks: Object, **spec: Any) -> Object:
    """A Job with these tasks."""
    top = {"apiVersion": _VERSION, "kind": "Job", "metadata": {"name": "j"}}
    return {**top, "spec": {"tasks": [*tasks], **spec}}


def spec_of(manifest: Object) -> Object:
    found: Object = convert_one(manifest).job["spec"]
    return found


def rules_of(manifest: Object) -> list[Object]:
    """The failure rules without the one about disruptions."""
    found: list[Object] = spec_of(manifest)["failurePolicy"]["rules"]
    ignored = {"onConditions": ["DisruptionTarget"], "action": "Ignore"}
    assert ignored in found
    return [each for each in found if each != ignored]


def comments(manifest: Object) -> dict[str, str]:
    return {each.path: each.why for each in convert_one(manifest).comments}


@pytest.mark.proves("from-other-operators.md#job-of-volcano/*")
def test_tasks_keep_their_names_sizes_and_order() -> None:
    after = task("b", replicas=4, minAvailable=2, maxRetry=7, dependsOn={"name": ["a"]})
    found = spec_of(job(task(), after, maxRetry=5, ttlSecondsAfterFinished=9))
    assert (found["backoffLimit"], found["ttlSecondsAfterFinished"]) == (5, 9)
    first, second = ({k: v for k, v in each.items() if k != "template"} for each in found["tasks"])
    assert first == {"type": "none", "name": "a", "replicas": 1}
    assert second == {
        **{"type": "none", "name": "b", "replicas": 4, "minReplicas": 2, "backoffLimit": 7},
        "dependsOn": ["a"],
    }


def test_a_task_without_a_name_has_volcanos_default_one() -> None:
    unnamed = {name: value for name, value in task().items() if name != "name"}
    assert [each["name"] for each in spec_of(job(task(), unnamed))["tasks"]] == ["a", "default1"]


@pytest.mark.parametrize(
    ("policy", "rule"),
    [
        ({"event": "PodFailed", "action": "RestartJob"}, {"action": "RestartJob"}),
        ({"event": "PodFailed", "action": "RestartPod"}, {"action": "Restart"}),
        (
            {"events": ["PodEvicted"], "action": "RestartTask"},
            {"onConditions": ["DisruptionTarget"], "action": "RestartTask"},
        ),
        (
            {"exitCode": 3, "action": "TerminateJob"},
            {"onExitCodes": {"operator": "In", "values": [3]}, "action": "FailJob"},
        ),
    ],
)
def test_a_policy_is_a_failure_rule_of_the_job_or_of_its_task(policy: Object, rule: Object) -> None:
    assert rules_of(job(task(), policies=[policy]))[0] == rule
    assert rules_of(job(task(policies=[policy])))[0] == {"tasks": ["a"], **rule}


def test_rules_of_tasks_precede_those_of_the_job_and_disruptions_failures() -> None:
    evicted = {"events": ["PodEvicted", "PodFailed"], "action": "RestartJob"}
    own = {"event": "PodFailed", "action": "RestartTask"}
    found = spec_of(job(task(policies=[own]), task("b"), policies=[evicted]))
    assert found["failurePolicy"]["rules"] == [
        {"onConditions": ["DisruptionTarget"], "action": "RestartJob"},
        {"onConditions": ["DisruptionTarget"], "action": "Ignore"},
        {"tasks": ["a"], "action": "RestartTask"},
        {"action": "RestartJob"},
    ]


def test_policies_after_one_about_all_failures_are_in_comments() -> None:
    policies: list[Object] = [
        {"event": "PodFailed", "action": "RestartJob"},
        {"event": "PodFailed", "action": "RestartTask"},
        {"exitCode": 3, "action": "RestartTask"},
    ]
    manifest = job(task(), policies=policies)
    assert rules_of(manifest) == [{"action": "RestartJob"}]
    assert [*comments(manifest)] == ["spec.policies[1]", "spec.policies[2]"]


@pytest.mark.parametrize(
    ("action", "found"),
    [
        ("CompleteJob", "CompleteJob"),
        ("RestartJob", "RestartJob"),
        ("RestartTask", "RestartTask"),
        ("TerminateJob", "FailJob"),
    ],
)
def test_a_policy_on_completion_is_that_of_its_task_or_of_all(action: str, found: str) -> None:
    policy = {"event": "TaskCompleted", "action": action}
    one = spec_of(job(task(policies=[policy]), task("b")))["tasks"]
    assert [each.get("onCompletion") for each in one] == [found, None]
    all_of_them = spec_of(job(task(), task("b"), policies=[policy]))["tasks"]
    assert [each.get("onCompletion") for each in all_of_them] == [found, found]


def test_the_first_policy_on_completion_decides_and_others_are_in_comments() -> None:
    actions = ("CompleteJob", "RestartJob")
    policies = [{"event": "TaskCompleted", "action": action} for action in actions]
    manifest = job(task(), policies=policies)
    assert spec_of(manifest)["tasks"][0]["onCompletion"] == "CompleteJob"
    assert [*comments(manifest)] == ["spec.policies[1]"]


def test_policies_without_an_equal_are_in_comments() -> None:
    policies: list[Object] = [
        {"event": "Unknown", "action": "RestartJob"},
        {"event": "PodFailed", "action": "CompleteJob"},
        {"event": "TaskCompleted", "action": "RestartPod"},
        {"exitCode": 3, "action": "CompleteJob"},
        {"event": "PodFailed", "action": "AbortJob", "timeout": "5s"},
    ]
    manifest = job(task(), policies=policies)
    assert rules_of(manifest) == [{"action": "FailJob"}]
    assert [*comments(manifest)] == [
        *(f"spec.policies[{index}]" for index in range(4)),
        "spec.policies[4].action",
        "spec.policies[4].timeout",
    ]


@pytest.mark.parametrize(
    ("restart", "action"), [("OnFailure", "Restart"), ("Always", "Restart"), ("Never", "FailJob")]
)
def test_the_restart_policy_of_a_template_is_a_rule_after_the_policies(
    restart: str, action: str
) -> None:
    place = "spec.tasks[0].template.spec.restartPolicy"
    manifest = job(task(restart=restart))
    assert rules_of(manifest) == [{"tasks": ["a"], "action": action}]
    assert (place in comments(manifest)) is (restart != "OnFailure")
    decided = job(task(restart=restart), policies=[{"event": "PodFailed", "action": "RestartJob"}])
    assert rules_of(decided) == [{"action": "RestartJob"}]
    assert comments(decided)[place] == "the policy on PodFailed decides"
    assert "restartPolicy" not in spec_of(manifest)["tasks"][0]["template"]["spec"]


def test_the_scheduler_queue_and_priority_are_those_of_the_job() -> None:
    found = spec_of(job(task(), queue="train", priorityClassName="high"))
    assert found["scheduling"] == {"gangScheduler": "volcano", "queue": "train"}
    assert found["tasks"][0]["template"]["spec"]["priorityClassName"] == "high"
    other = job(task(), schedulerName="mine", queue="train", minAvailable=1)
    assert spec_of(other)["scheduling"] == {"gang": True}
    assert spec_of(other)["tasks"][0]["template"]["spec"]["schedulerName"] == "mine"
    assert [*comments(other)] == ["spec.queue"]


def test_volumes_are_mounted_in_all_containers() -> None:
    volumes: list[Object] = [
        {"mountPath": "/data", "volumeClaimName": "data"},
        {"mountPath": "/tmp/x"},
    ]
    found = spec_of(job(task(), volumes=volumes))
    assert found["volumes"] == [
        {"name": "volcano-0", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "volcano-1", "emptyDir": {}},
    ]
    (container,) = found["tasks"][0]["template"]["spec"]["containers"]
    assert container["volumeMounts"] == [
        {"name": "volcano-0", "mountPath": "/data"},
        {"name": "volcano-1", "mountPath": "/tmp/x"},
    ]


def test_the_plugin_of_tensorflow_is_a_cluster_of_the_tasks_with_its_roles() -> None:
    tasks = (task("chief"), task("ps"), task("worker"), task("log"))
    plugins = {"svc": [], "env": [], "tensorflow": ["--ps=ps", "--worker=worker", "--port=2222"]}
    manifest = job(*tasks, plugins=plugins)
    groups = [each.get("processGroup") for each in spec_of(manifest)["tasks"]]
    assert groups == [*[{"framework": "tensorflow"}] * 3, None]
    assert [*comments(manifest)] == [
        "spec.plugins.svc",
        "spec.plugins.env",
        "spec.plugins.tensorflow",
    ]


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        ({"plugins": {"pytorch": ["--master=a"]}}, "spec.plugins.pytorch"),
        ({"plugins": {"mpi": []}}, "spec.plugins.mpi"),
        ({"plugins": {"tensorflow": ["--worker=a"]}}, "spec.plugins.tensorflow"),
        ({"volumes": [{"mountPath": "/a", "volumeClaim": {}}]}, "spec.volumes[0].volumeClaim"),
        ({"tasks": []}, "spec.tasks"),
        ({"tasks": [task(minAvailable=2)]}, "spec.tasks[0].replicas of the DIJob"),
    ],
)
def test_what_a_dijob_cannot_do_is_refused(spec: Object, place: str) -> None:
    with pytest.raises(RefusedManifest) as refused:
        convert_one(job(*spec.pop("tasks", [task()]), **spec))
    assert refused.value.place == place
    assert refused.value.remedy


def _policies() -> st.SearchStrategy[Any]:
    actions = st.sampled_from(["RestartJob", "RestartPod", "AbortJob", "CompleteJob", "SyncJob"])
    events = st.sampled_from(["PodFailed", "PodEvicted", "TaskCompleted", "*", "Unknown"])
    by_event = some({"action": actions, "event": events}, {"timeout": WORDS})
    by_code = some({"action": actions, "exitCode": st.just(177)}, {"timeout": WORDS})
    return st.lists(st.one_of(by_event, by_code), max_size=2)


def _path(volume: Object) -> Any:
    return volume["mountPath"]


def _manifests() -> st.SearchStrategy[Object]:
    depends = some({"name": st.just(["first"])}, {"iteration": st.just("any")})
    fields: Object = {
        "policies": _policies(),
        "minAvailable": st.integers(min_value=0, max_value=2),
        "maxRetry": st.just(171),
        "topologyPolicy": WORDS,
    }
    fixed: Object = {"template": template("main", ""), "replicas": st.integers(2, 4)}
    first = some({**fixed, "name": st.just("first")}, fields)
    second = some({**fixed, "name": st.just("second")}, {**fields, "dependsOn": depends})
    volumes = some({"mountPath": WORDS.map("/{}".format)}, {"volumeClaimName": WORDS})
    spec = some(
        {"tasks": st.tuples(first, second).map(list)},
        {
            **{"policies": _policies(), "volumes": st.lists(volumes, max_size=2, unique_by=_path)},
            **{"schedulerName": st.sampled_from(["volcano", "mine"]), "queue": WORDS},
            **{"minAvailable": st.just(1234), "maxRetry": st.just(172), "minSuccess": st.just(173)},
            **{"ttlSecondsAfterFinished": st.just(174), "runningEstimate": WORDS},
            **{"priorityClassName": WORDS, "networkTopology": st.just({"mode": "hard"})},
            "plugins": st.dictionaries(
                st.sampled_from(["svc", "env", "ssh", "other"]), st.lists(WORDS, max_size=1)
            ),
        },
    )
    return manifests("Job", spec, _VERSION)


@given(_manifests())
def test_no_field_of_a_volcano_job_is_lost(manifest: Object) -> None:
    found = outcome(manifest)
    assert not isinstance(found, str), found
    assert lost(manifest, found) == []
    assert validate_job(found.job) == []
