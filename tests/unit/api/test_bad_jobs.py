"""Jobs that are refused or accepted as a whole: names that fit together, and all errors at once."""

from __future__ import annotations

import pytest

from di_api.spec import CleanPodPolicy, JobSpec, Priority, Task, TaskType
from di_api.validation import MAX_ERRORS, load_leniently, validate_job
from tests.unit.api.jobs import Job, coordinated_job, job, leader, task, template, with_template
from tests.unit.api.refusals import edited

HTTP = {"name": "http", "port": 80}


def too_long(kind: str, characters: str, pod: str, longest: str) -> str:
    return (
        f'metadata.{kind}: "{characters}": {len(characters)} characters are too many, its pod '
        f"<name>-{pod} may have 63; the longest name that fits has {len(longest)}, such as "
        f'"{longest}"'
    )


NAMES = {
    too_long("name", "n" * 53, "learner-10", "n" * 52): job(task(replicas=11), name="n" * 53),
    too_long("name", "n" * 52, "learner-100", "n" * 51): job(task(maxReplicas=101), name="n" * 52),
    too_long("name", "n" * 61, "a-0", "n" * 59): job(task("none", name="a"), name="n" * 61),
    too_long("name", "a" * 46, "ddp-learner-xxxxx", "a" * 45): coordinated_job("a" * 46),
    too_long("generateName", "n" * 49 + "-", "learner-0", "n" * 48): job()
    | {"metadata": {"generateName": "n" * 49 + "-"}},
    too_long("generateName", "a" * 41, "ddp-learner-xxxxx", "a" * 40): coordinated_job()
    | {"metadata": {"generateName": "a" * 41}},
    'spec.tasks[0].name: "' + "t" * 58 + '": 58 characters are too many, pods are named <job>-'
    f"{'t' * 58}-0 and may have 63; the longest name that fits has 54": job(
        task("none", name="t" * 58)
    )
    | {"metadata": {"generateName": "a"}},
    "spec.tasks: a list of 1: may reach 4096 pods, whose DNS names take 1368064 bytes of the "
    "1048576 that node lists may have: with names as long as these there is room for 3139 pods; "
    "lower replicas or maxReplicas, or shorten the name of the job, of its tasks or of its "
    "namespace": job(task(maxReplicas=4096), name="n" * 50),
    'spec.tasks[0].name: "di": its Service di-di-di would be the one that the job has for all its '
    "pods": job(task("none", name="di", service={"ports": [HTTP]}), name="di-di"),
    f'spec.tasks[1].name: "{"t" * 60}": 60 characters are too many, pods are named '
    f"<job>-{'t' * 60}-0 and may have 63; the longest name that fits has 56": job(
        task(), task("none", name="t" * 60), name="cart"
    ),
}


@pytest.mark.proves(
    "dijob.md#how-large-a-job-may-be/dns-names-of-all-pods-twice",
    "dijob.md#when-a-job-is-refused",
    "teams-gangs.md#what-does-not-go-together/preemptible-true",
    "teams-gangs.md#what-does-not-go-together/scheduling-gang-true",
    "teams-gangs.md#what-does-not-go-together/queue-without-volcano",
    "roles.md#a-replica-of-several-pods/the-4-096-that-a-job-may-have",
)
@pytest.mark.parametrize(("message", "bad"), NAMES.items())
def test_names_that_are_too_long_together_are_refused(message: str, bad: Job) -> None:
    assert [str(error) for error in validate_job(bad)] == [message]


def test_all_errors_come_at_once() -> None:
    bad = job(
        task("lerner", name="a", replicas=0),
        task("none", replicas=3, maxReplicas=2, dependsOn=["ghost"]),
        name="cart.pole",
        priority="urgent",
        backoffLimit=-1,
    )
    assert [error.path for error in validate_job(bad)] == [
        *("metadata.name", "spec.priority", "spec.backoffLimit", "spec.tasks[0].type"),
        *("spec.tasks[0].replicas", "spec.tasks[1].name", "spec.tasks[1].replicas"),
        "spec.tasks[1].dependsOn[0]",
    ]


def test_the_errors_of_a_leader_come_beside_others() -> None:
    bad = job(task("none", podsPerReplica=2, leaderTemplatePatch={"spec": {"containers": []}}))
    assert [error.path for error in validate_job(bad)] == [
        "spec.tasks[0].name",
        "spec.tasks[0].leaderTemplatePatch.spec.containers",
    ]


def test_tasks_above_the_bound_are_not_validated() -> None:
    tasks = (task("none", name=f"t{index}", replicas=int(index < 64)) for index in range(70))
    assert [error.path for error in validate_job(job(*tasks))] == ["spec.tasks"]


def test_no_more_errors_are_looked_for_than_are_returned() -> None:
    bad = job(*(task("none", name=f"t{index}", replicas=0, x=0) for index in range(64)))
    assert len(validate_job(bad)) == MAX_ERRORS


def test_the_name_leaves_space_for_the_service_of_the_job() -> None:
    errors = validate_job({"metadata": {"name": "n" * 61}, "spec": {"tasks": []}})
    assert [str(error) for error in errors if error.path == "metadata.name"] == [
        f'metadata.name: "{"n" * 61}": 61 characters are too many, its Service di-<name> may have '
        f'63; the longest name that fits has 60, such as "{"n" * 60}"'
    ]


GOOD_CHANGES = {
    "nothing": "",
    "replicas at both bounds": "tasks[0].minReplicas=1; tasks[0].maxReplicas=1",
    "no restart allowed": "backoffLimit=0",
    "a volume with the name that one of a claim has": "checkpoint.volume=di-checkpoint; "
    "volumes=[{name: di-checkpoint, hostPath: {path: /a}}]",
    "the name of a claim's volume beside another one": "checkpoint.volume=disk; volumes=[{name: "
    "disk, hostPath: {path: /a}}]; tasks[0].template.spec.volumes=[{name: di-checkpoint}]",
    "the longest label as topology": "scheduling.topology=[{tasks: [learner], required: "
    f"{'.'.join(['a' * 63] * 3 + ['a' * 61])}/b}}]",
    "a queue of volcano": "scheduling={gangScheduler: volcano, queue: rl}",
    "a label without a prefix as topology": "scheduling.topology=[{tasks: [learner], required: a}]",
    "a label of the user": "tasks[0].template.metadata.labels.team=rl",
    "a request that is the limit": "tasks[0].template.spec.resources={requests: {cpu: 1}, "
    "limits: {cpu: 1}}",
    "deletion at once when finished": "ttlSecondsAfterFinished=0",
    "null for fields that may be absent": "tasks[0].minReplicas=null; tasks[0].dependsOn=null; "
    "tasks[0].name=null; group=null; volumes=null",
    "two protocols of one port": "tasks[0].service.ports=[{name: a, port: 80}, "
    "{name: b, port: 80, protocol: UDP}]",
    "as many pods as a job may have": "tasks[0].replicas=4; tasks[0].podsPerReplica=1024",
    "a variable of the contract": "tasks[0].template.spec.containers[0].env=[{name: DI_RANK}]",
}
GOOD_JOBS = {
    "several tasks of each type": job(
        *(task(kind) for kind in ("learner", "collector", "evaluator")),
        *(task(kind, name=f"{kind}-{n}") for kind in ("collector", "none") for n in "ab"),
    ),
    "ports of one name in several tasks": job(
        task(ports=[{"name": "rpc"}]),
        task("collector", ports=[{"name": "rpc"}]),
        task("evaluator", ports=[{"name": "b"}]),
    ),
    "one port of the job in several tasks": job(
        *(task(kind, ports=[{"name": "rpc", "scope": "Job"}]) for kind in ("learner", "collector"))
    ),
    "a digit at the beginning of a name without a Service": job(name="1st"),
    "a generated name that begins like the job's own Service": {
        "metadata": {"generateName": "di"},
        **{"spec": job(task("none", name="di", service={"ports": [HTTP]}))["spec"]},
    },
    "tasks that wait for one and for two others": job(
        task(),
        task("collector", dependsOn=["learner"]),
        task("evaluator", dependsOn=["learner", "collector"]),
    ),
    "a gap below the minimum of a task without an elastic tier": job(
        task("none", name="a", replicas=4, minReplicas=2, maxReplicas=4, vacant=[1])
    ),
    "as many groups of pods as a ProvisioningRequest has": job(
        *(task("none", name=f"t{index}") for index in range(32)),
        scheduling={"provisioningClassName": "a"},
    ),
    "names like those of replicas": job(task("none", name="a"), task("none", name="a-1")),
    "maxReplicas of 4096 pods": job(task(maxReplicas=4000), task("collector", replicas=96)),
    "names that fit the node lists of 4096 pods": job(task(replicas=4096), name="n" * 16),
    "names beside those of replicas": job(
        task(podsPerReplica=2), task("none", name="learner-b"), task("none", name="learner-1x")
    ),
    "a leader like the others": leader({}),
    "a leader with another image and another container": leader(
        {"spec": {"containers": [{"name": "di-container", "image": "b"}, {"name": "proxy"}]}}
    ),
    "the longest job name": job(name="n" * 53),
    "the longest task name": job(task("none", name="t" * 59), name="x"),
    "the longest generated name": job() | {"metadata": {"generateName": "n" * 47 + "-"}},
    "reserved labels with the operator's values": with_template(
        labels={
            "diengine/job": "cartpole",
            "diengine/operator": "di-operator",
            "diengine/task-type": "learner",
            "diengine/task-name": "learner",
        }
    ),
} | {name: edited(job(), changes) for name, changes in GOOD_CHANGES.items()}


@pytest.mark.parametrize("good", GOOD_JOBS.values(), ids=GOOD_JOBS)
def test_a_good_job_is_accepted(good: Job) -> None:
    assert validate_job(good) == []


def test_a_spec_is_loaded_with_its_values_and_defaults() -> None:
    bounds = {"replicas": 4, "minReplicas": 2, "maxReplicas": 8}
    volumes = {"name": "data", "emptyDir": {}}
    collector = task("collector", name="actors", dependsOn=["learner"], **bounds)
    written = job(task(), collector, priority="high", volumes=[volumes], activeDeadlineSeconds=3600)
    spec = load_leniently(written["spec"])
    assert spec == JobSpec(
        priority=Priority.HIGH,
        clean_pod_policy=CleanPodPolicy.RUNNING,
        preemptible=False,
        backoff_limit=3,
        volumes=(volumes,),
        active_deadline_seconds=3600,
        tasks=(
            Task(name="learner", type=TaskType.LEARNER, replicas=1, template=template()),
            Task(
                name="actors",
                type=TaskType.COLLECTOR,
                replicas=4,
                min_replicas=2,
                max_replicas=8,
                depends_on=("learner",),
                template=template(),
            ),
        ),
    )
    assert spec.replicas == 5
