"""Jobs written and read in the versions before the newest, converted by the real webhook."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
import yaml

from di_api import names
from di_api.difference import first_difference
from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.errors import ApiError
from di_kube.resources import DIJOBS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from tests.integration.conftest import ApiServer, fresh_namespace, older_versions
from tests.integration.webhook_process import (
    WebhookProcess,
    client_config,
    configurations,
    webhook_process,
)
from tests.unit.webhook.reviews import job as tasks_job
from tests.waiting import wait_until_async

Job = dict[str, Any]

MANIFEST = """
apiVersion: diengine.opendilab.org/v1alpha1
kind: DIJob
metadata:
  name: cartpole-dqn
spec:
  group: xxx
  priorityClassName: ""
  cleanPodPolicy: "ALL"
  volumes:
  - name: work-dir
    hostPath:
      path: /data/cartpole
  coordinator:
    template:
      metadata:
        creationTimestamp: null
        labels: {app: cartpole}
      spec:
        containers:
        - name: di-container
          image: example/di-engine
          imagePullPolicy: Always
          env: &env
          - {name: PYTHONUNBUFFERED, value: "1"}
          command: ["/bin/bash", "-c"]
          args: ["ding -m dist --module coordinator"]
          ports:
          - {name: di-port, containerPort: 22273}
          resources:
            requests: {cpu: 1, memory: 1Gi}
            limits: {cpu: "2", memory: 2Gi, nvidia.com/gpu: 1}
          volumeMounts: &mounts
          - {name: work-dir, mountPath: /ding}
  collector:
    template:
      spec:
        containers:
        - name: di-container
          image: example/di-engine
          env: *env
          command: ["/bin/bash", "-c"]
          args: ["ding -m dist --module collector"]
          ports:
          - {name: di-port, containerPort: 22270}
          volumeMounts: *mounts
  learner:
    template:
      spec:
        restartPolicy: OnFailure
        containers:
        - name: di-container
          image: example/di-engine
          env: *env
          args: ["ding", "-m", "dist", "--module", "spawn_learner"]
          volumeMounts:
          - {name: cache-volume, mountPath: /dev/shm}
          - {name: work-dir, mountPath: /ding}
        volumes:
        - name: cache-volume
          emptyDir: {medium: Memory, sizeLimit: 128Mi}
"""
REPLICAS = [
    {"name": "cartpole-dqn-collector-bcdfg", "role": "collector", "resources": {"cpu": "1"}},
    {"name": "cartpole-dqn-collector-bcdfh", "role": "collector", "generation": 1},
]
VERSIONS = (names.VERSION, *names.COORDINATED_VERSIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Testbed:
    """A namespace whose jobs are admitted and converted by a webhook."""

    __test__: ClassVar[bool] = False  # no class of tests, whatever its name begins with

    kubectl_command: tuple[str, ...]
    config: KubeConfig
    namespace: str
    webhook: WebhookProcess

    def kubectl(self, *arguments: str, stdin: object = None) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        done = subprocess.run(
            [*self.kubectl_command, *arguments],
            input=yaml.safe_dump(stdin) if stdin is not None else None,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def get(self, name: str, version: str = names.VERSION) -> Job:
        """A job as `version` has it, without managedFields."""
        code, out, err = self.kubectl("get", resource(version), name, "-ojson")
        assert (code, err) == (0, "")
        found: Job = json.loads(out)
        return found

    def call(self, work: Callable[[KubeClient], Awaitable[Any]]) -> Any:
        """Run a coroutine with a client of its own."""

        async def run() -> Any:
            async with KubeClient(config=self.config) as client:
                return await work(client)

        return asyncio.run(run())

    async def admit(self, client: KubeClient) -> None:
        """Have the API server ask the webhook about the namespace's jobs."""
        mutating, validating = configurations(self.webhook, self.namespace, self.namespace)
        await client.create(MUTATING_WEBHOOKS, mutating)
        await client.create(VALIDATING_WEBHOOKS, validating)
        older = replace(DIJOBS, version="v1alpha1")
        probe = manifest("probe", cleanPodPolicy="hello")

        async def refuses() -> bool:
            try:
                await client.create(older, probe, self.namespace)
            except ApiError as error:
                return "denied the request" in error.message
            await client.delete(DIJOBS, "probe", self.namespace)
            return False

        await wait_until_async(refuses, what="the API server to call the webhook")

    async def withdraw(self, client: KubeClient) -> None:
        """Have it ask no more."""
        await client.delete(MUTATING_WEBHOOKS, self.namespace)
        await client.delete(VALIDATING_WEBHOOKS, self.namespace)

    def patch_status(self, name: str, status: Job) -> None:
        self.call(
            lambda client: client.patch(
                DIJOBS, name, {"status": status}, self.namespace, subresource="status"
            )
        )


def resource(version: str) -> str:
    return f"{names.PLURAL}.{version}.{names.GROUP}"


def manifest(name: str = "cartpole-dqn", version: str = "v1alpha1", **spec: Any) -> Job:
    body: Job = yaml.safe_load(MANIFEST)
    body["apiVersion"] = f"{names.GROUP}/{version}"
    body["metadata"]["name"] = name
    body["spec"] |= spec
    return body


@pytest.fixture(scope="module")
def testbed(
    api_server: ApiServer,
    kube_config: KubeConfig,
    crd: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Testbed]:
    with (
        fresh_namespace(kube_config) as namespace,
        webhook_process(tmp_path_factory.mktemp("webhook"), api_server.host_address) as webhook,
        older_versions(kube_config, client_config(webhook, "/convert")),
    ):
        kubectl = str(api_server.binary("kubectl"))
        command = (kubectl, f"--kubeconfig={api_server.kubeconfig}", f"--namespace={namespace}")
        made = Testbed(
            kubectl_command=command, config=kube_config, namespace=namespace, webhook=webhook
        )
        made.call(made.admit)
        try:
            yield made
        finally:
            made.call(made.withdraw)


@pytest.mark.proves("operations.md#older-versions-and-aggregators")
def test_a_manifest_of_the_field_is_taken_without_a_word(testbed: Testbed) -> None:
    for version in names.COORDINATED_VERSIONS:
        name = f"taken-{version}"
        body = manifest(name, version)
        code, out, err = testbed.kubectl("apply", "-f-", stdin=body)
        assert (code, out, err) == (0, f"dijob.{names.GROUP}/{name} created\n", "")
        # Sent again, for the older spelling of the policy, and found to be the same.
        code, _, err = testbed.kubectl("apply", "-f-", stdin=body)
        assert (code, err) == (0, "")
        assert testbed.get(name)["metadata"]["generation"] == 1


def test_a_job_is_the_same_in_every_version(testbed: Testbed) -> None:
    given = manifest("same")
    assert testbed.kubectl("create", "-f-", stdin=given)[0] == 0
    newest = testbed.get("same")
    assert newest["spec"]["cleanPodPolicy"] == "All"
    coordinated = newest["spec"]["coordinated"]
    for role in ("coordinator", "collector", "learner"):
        assert coordinated[role] == given["spec"][role]
    for version in names.COORDINATED_VERSIONS:
        spec = testbed.get("same", version)["spec"]
        assert spec == given["spec"] | {"cleanPodPolicy": "All"}
    for version in VERSIONS:
        assert testbed.kubectl("get", resource(version), "-oname", "same")[2] == ""


def test_columns_tell_where_a_job_stands(testbed: Testbed) -> None:
    testbed.kubectl("create", "-f-", stdin=manifest("columns"))
    testbed.patch_status("columns", {"phase": "Starting"})
    for version, headings, phase in (
        ("v1alpha1", ["NAME", "PHASE", "AGE"], "Created"),
        (names.VERSION, ["NAME", "PHASE", "READYREPLICAS"], "Starting"),
    ):
        lines = testbed.kubectl("get", resource(version), "columns")[1].splitlines()
        assert lines[0].split()[:3] == headings
        assert lines[1].split()[:2] == ["columns", phase]


def keeps(testbed: Testbed, name: str, change: Callable[[Job], None]) -> Job:
    """Make a job with replicas, let somebody change it, and compare; returns what it is then."""
    body = manifest(name)
    assert testbed.kubectl("apply", "-f-", stdin=body)[0] == 0
    replicas = {"spec": {"coordinated": {"replicas": REPLICAS}, "priority": "high"}}
    testbed.call(lambda client: client.patch(DIJOBS, name, replicas, testbed.namespace))
    testbed.patch_status(name, {"phase": "Rescheduling", "reschedules": 4, "profilings": {"a": 1}})
    before = testbed.get(name)
    change(body)
    after = testbed.get(name)
    assert after["status"] == before["status"]
    # Null and absent are the same; kubectl writes now this and now that.
    assert first_difference(after["spec"], before["spec"] | {"cleanPodPolicy": "None"}) is None
    assert names.ANNOTATION_CONVERSION not in after["metadata"].get("annotations", {})
    return after


def test_who_edits_or_replaces_a_job_loses_none_of_what_is_not_shown(testbed: Testbed) -> None:
    def patch(name: str) -> Callable[[Job], None]:
        def change(_body: Job) -> None:
            policy = json.dumps({"spec": {"cleanPodPolicy": "None"}})
            job = (resource("v1alpha1"), name)
            code, _, err = testbed.kubectl("patch", *job, "--type=merge", "-p", policy)
            assert (code, err) == (0, "")

        return change

    def write(verb: str) -> Callable[[Job], None]:
        def change(body: Job) -> None:
            body["spec"]["cleanPodPolicy"] = "None"
            code, _, err = testbed.kubectl(verb, "-f-", stdin=body)
            assert (code, err) == (0, "")

        return change

    keeps(testbed, "patched", patch("patched"))
    keeps(testbed, "applied", write("apply"))
    # The manifest knows nothing of the annotation.
    keeps(testbed, "replaced", write("replace"))


def test_a_job_with_tasks_is_read_and_written_unchanged(testbed: Testbed) -> None:
    job = tasks_job(priority="high", group="x", suspend=True)
    job["metadata"] = {"name": "tasks", "namespace": testbed.namespace}
    testbed.call(lambda client: client.create(DIJOBS, job, testbed.namespace))
    testbed.patch_status("tasks", {"phase": "Restarting", "restarts": 2, "replicas": 1})
    before = testbed.get("tasks")
    old = testbed.get("tasks", "v1alpha1")
    assert old["spec"] == {"group": "x", "cleanPodPolicy": "Running"}
    assert old["status"] == {"phase": "Created"}
    code, _, err = testbed.kubectl("replace", "-f-", stdin=old)
    assert (code, err) == (0, "")
    assert testbed.kubectl("label", resource("v1alpha2"), "tasks", "a=b")[0] == 0
    after = testbed.get("tasks")
    assert (after["spec"], after["status"]) == (before["spec"], before["status"])
    assert after["metadata"]["labels"] == {"a": "b"}
    assert after["metadata"]["generation"] == before["metadata"]["generation"]


def set_in_container(body: Job, **fields: Any) -> None:
    body["spec"]["coordinator"]["template"]["spec"]["containers"][0].update(fields)


REFUSED: dict[str, tuple[Callable[[Job], object], str]] = {
    "an unknown clean-up policy": (
        lambda body: body["spec"].update(cleanPodPolicy="hello"),
        "Invalid CleanPodPolicy hello, expected in [None, Running, All]",
    ),
    "a misspelt field of a template": (
        lambda body: set_in_container(body, imagee="x"),
        "spec.coordinator.template.spec.containers[0].imagee",
    ),
    "a mistyped field of a template": (
        lambda body: set_in_container(body, tty="yes"),
        'spec.coordinator.template.spec.containers[0].tty: "yes": must be true or false',
    ),
    "no coordinator": (
        lambda body: body["spec"].pop("coordinator"),
        "spec.coordinator: is required",
    ),
    "a volume of no kind": (
        lambda body: body["spec"]["volumes"][0].update(hostPathh={}),
        "spec.volumes[0].hostPathh",
    ),
}


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=REFUSED)
def test_a_bad_manifest_is_refused_in_its_own_words(
    testbed: Testbed, change: Callable[[Job], object], message: str
) -> None:
    body = manifest("refused")
    change(body)
    code, _, err = testbed.kubectl("create", "-f-", stdin=body)
    assert code != 0
    assert message in err
    assert "coordinated" not in err


def test_programs_read_the_sentence_about_the_policy(testbed: Testbed) -> None:
    body = manifest("refused", cleanPodPolicy="hello")
    old = replace(DIJOBS, version="v1alpha1")
    with pytest.raises(ApiError) as refused:
        testbed.call(lambda client: client.create(old, body, testbed.namespace))
    said = "denied the request: Invalid CleanPodPolicy hello, expected in [None, Running, All]"
    assert refused.value.message.endswith(said)


@pytest.mark.extended
def test_five_hundred_jobs_are_listed_at_once(testbed: Testbed) -> None:
    # More than the webhook has threads for, and each as large as they come in the field.
    bodies = [manifest(f"many-{number}", names.VERSION) for number in range(500)]
    for body in bodies:
        spec = body.pop("spec")
        body["metadata"]["labels"] = {"many": "yes"}
        roles = ("coordinator", "collector", "learner")
        coordinated = {role: spec[role] for role in roles}
        body["spec"] = {"volumes": spec["volumes"], "coordinated": coordinated}
    old = replace(DIJOBS, version="v1alpha2")

    async def fill_and_list(client: KubeClient) -> Any:
        for start in range(0, len(bodies), 20):
            some = bodies[start : start + 20]
            await asyncio.gather(*(client.create(DIJOBS, b, testbed.namespace) for b in some))

        async def listed() -> Any:
            # With a resource version of 0 the API server answers from its cache; without one it
            # reads, and converts, what is stored.
            try:
                found, _ = await client.list(
                    old, testbed.namespace, label_selector="many=yes", timeout=60
                )
            except ApiError:
                return None
            return found if len(found) == len(bodies) else None

        return await wait_until_async(listed, what="all jobs to be listed")

    jobs = testbed.call(fill_and_list)
    assert {job["metadata"]["name"] for job in jobs} == {b["metadata"]["name"] for b in bodies}
    for each in jobs:
        assert each["spec"]["learner"] == bodies[0]["spec"]["coordinated"]["learner"]


def test_without_the_webhook_only_the_older_versions_fail_and_they_come_back(
    testbed: Testbed,
) -> None:
    """The last one of this file: the webhook of the others is gone afterwards."""
    # Its managedFields speak of an older version, which newer writes must do without.
    assert testbed.kubectl("apply", "--server-side", "-f-", stdin=manifest("outage"))[0] == 0
    assert testbed.webhook.terminate() == 0

    testbed.patch_status("outage", {"phase": "Running"})
    assert testbed.get("outage")["status"] == {"phase": "Running"}
    code, _, err = testbed.kubectl("create", "-f-", stdin=manifest("refused"))
    assert code != 0
    assert "conversion webhook for diengine.opendilab.org/v1alpha1, Kind=DIJob failed" in err

    folder = testbed.webhook.certificates.parent
    with webhook_process(
        folder, testbed.webhook.host, with_certificate=False, port=testbed.webhook.port
    ):

        async def is_back(client: KubeClient) -> None:
            async def reads() -> bool:
                try:
                    found = await client.get(
                        replace(DIJOBS, version="v1alpha1"), "outage", testbed.namespace
                    )
                except ApiError:
                    return False
                return bool(found["status"] == {"phase": "Running"})

            await wait_until_async(reads, what="the older versions to be served again")

        testbed.call(is_back)
        code, _, err = testbed.kubectl("create", "-f-", stdin=manifest("after"))
        assert (code, err) == (0, "")
