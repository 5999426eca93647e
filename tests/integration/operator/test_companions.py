"""What jobs bring along, on a real API server: made before the pods, refused with its words."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.companions import CompanionKind
from di_api.kube.config import KubeConfig
from di_api.kube.errors import Invalid, NotFound
from di_api.kube.resources import CONFIGMAPS, DIJOBS, Resource
from tests.integration.operator_testbed import Testbed, condition, job, on_testbed, task

pytestmark = pytest.mark.usefixtures("crd")

Object = dict[str, Any]
CLAIMS = Resource(
    group="", version="v1", plural="persistentvolumeclaims", kind="PersistentVolumeClaim"
)
KINDS = (
    CompanionKind(api_version="v1", kind=CONFIGMAPS.kind, resource=CONFIGMAPS.plural),
    CompanionKind(api_version="v1", kind=CLAIMS.kind, resource=CLAIMS.plural),
    CompanionKind(api_version="x.example/v1", kind="Pool", resource="pools"),
)
CONFIG: Object = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "$(JOB)-config", "labels": {"team": "rl"}},
    "data": {"who": "$(JOB) of $$(JOB)"},
}
CLAIM: Object = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "$(JOB)"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
POOL: Object = {"apiVersion": "x.example/v1", "kind": "Pool", "metadata": {"name": "$(JOB)"}}
SECRET: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "$(JOB)"}}


def test_they_stand_before_the_pods_come_back_and_go_with_the_job(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async def found(resource: Resource, name: str) -> Object | None:
            try:
                return await testbed.client.get(resource, name, namespace)
            except NotFound:
                return None

        async def config_is_there() -> bool:
            return await found(CONFIGMAPS, "a-config") is not None

        async def all_is_gone() -> bool:
            left = [await found(CONFIGMAPS, "a-config"), await found(CLAIMS, "a")]
            return left == [None, None]

        async with testbed.operator(companion_kinds=KINDS, sync_period=1.0):
            made = await testbed.submit(job("a", task(), companions=[CONFIG, CLAIM]))
            await testbed.phase("a", "Running")
            (pod,) = (await testbed.pods("a")).values()
            for resource, name in ((CONFIGMAPS, "a-config"), (CLAIMS, "a")):
                one = await found(resource, name)
                assert one is not None
                created = int(one["metadata"]["resourceVersion"])
                assert resource == CLAIMS or created < int(pod["metadata"]["resourceVersion"])
                (owner,) = one["metadata"]["ownerReferences"]
                assert (owner["uid"], owner["controller"]) == (made["metadata"]["uid"], True)
                assert one["metadata"]["creationTimestamp"] <= pod["metadata"]["creationTimestamp"]
            config = await found(CONFIGMAPS, "a-config")
            assert config is not None
            assert config["data"] == {"who": "a of $(JOB)"}
            assert config["metadata"]["labels"]["team"] == "rl"

            await testbed.client.delete(CONFIGMAPS, "a-config", namespace)
            await testbed.until(config_is_there, "the ConfigMap to be made again")
            assert (await testbed.status("a"))["phase"] == "Running"
            assert testbed.created == {"a-work-0": 1}

            await testbed.delete("a")
            await testbed.until(all_is_gone, "the garbage collector to come by")

    on_testbed(kube_config, namespace, body)


def test_what_cannot_be_made_is_told_in_the_api_servers_words_and_makes_no_pod(
    kube_config: KubeConfig, namespace: str
) -> None:
    wrong: dict[str, tuple[Object, str, str, str]] = {
        "unfit": (CLAIM | {"spec": {}}, "Failed", "InvalidCompanion", "spec.accessModes"),
        "mistyped": (CONFIG | {"data": {"a": 1}}, "Failed", "InvalidCompanion", "cannot unmarshal"),
        "taken": (CONFIG, "Failed", "CompanionConflict", "does not belong to this job"),
        "absent": (POOL, "Pending", "CompanionKindMissing", "Pool (x.example/v1) absent"),
        "refused": (SECRET, "Failed", "InvalidSpec", "no kind that jobs may ever bring along"),
    }

    async def body(testbed: Testbed) -> None:
        theirs = {"metadata": {"name": "taken-config"}, "data": {"theirs": "yes"}}
        before = await testbed.client.create(CONFIGMAPS, theirs, namespace)
        async with testbed.operator(companion_kinds=KINDS):
            for name, (companion, *_) in wrong.items():
                await testbed.submit(job(name, task(), companions=[companion]))
            for name, (_, phase, reason, words) in wrong.items():
                status = await testbed.phase(name, phase)
                told = condition(status, phase)
                assert (told["reason"], words in told["message"]) == (reason, True), told
                assert reason == "InvalidSpec" or "spec.companions[0]" in told["message"]
        assert testbed.created == {}
        after = await testbed.client.get(CONFIGMAPS, "taken-config", namespace)
        assert after == before

    on_testbed(kube_config, namespace, body)


@pytest.mark.parametrize(
    ("companion", "words"),
    [
        (CONFIG | {"metadata": {"name": "shared"}}, "metadata.name"),
        (CONFIG | {"metadata": {"name": "$(JOB)x"}}, "metadata.name"),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, "metadata: Required"),
        ({"kind": "ConfigMap", "metadata": {"name": "$(JOB)"}}, "apiVersion"),
        ({"apiVersion": "v1", "metadata": {"name": "$(JOB)"}}, "kind"),
        (CONFIG | {"metadata": {"name": "$(JOB)", "labels": {"a": "b c"}}}, "labels"),
    ],
)
def test_the_definition_refuses_what_it_can_without_the_webhook(
    kube_config: KubeConfig, namespace: str, companion: Object, words: str
) -> None:
    async def body(testbed: Testbed) -> None:
        with pytest.raises(Invalid, match=words.replace(".", r"\.")):
            await testbed.submit(job("a", task(), companions=[companion]))

    on_testbed(kube_config, namespace, body)


def test_the_definition_lets_none_be_changed(kube_config: KubeConfig, namespace: str) -> None:
    async def body(testbed: Testbed) -> None:
        made = await testbed.submit(job("a", task(), companions=[CONFIG]))
        (kept,) = made["spec"]["companions"]
        assert kept == CONFIG
        changes: list[list[Object] | None] = [
            None,
            [CONFIG, CLAIM],
            [CONFIG | {"data": {"who": "else"}}],
            [CONFIG | {"metadata": {"name": "$(JOB)"}}],
        ]
        for change in changes:
            with pytest.raises(Invalid, match="may not change while the job exists"):
                await testbed.client.patch(DIJOBS, "a", {"spec": {"companions": change}}, namespace)
        await testbed.patch("a", {"suspend": True})

    on_testbed(kube_config, namespace, body)
