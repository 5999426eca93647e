"""What jobs bring along, on a real API server: made before the pods, refused with its words."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.companions import CompanionKind
from di_kube.errors import Invalid
from di_kube.resources import CONFIGMAPS, Resource
from tests.integration.operator_testbed import Testbed, condition, job, task, with_testbed

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


@with_testbed
async def test_what_cannot_be_made_is_told_in_the_api_servers_words_and_makes_no_pod(
    testbed: Testbed, namespace: str
) -> None:
    wrong: dict[str, tuple[Object, str, str, str]] = {
        "unfit": (CLAIM | {"spec": {}}, "Failed", "InvalidCompanion", "spec.accessModes"),
        "mistyped": (CONFIG | {"data": {"a": 1}}, "Failed", "InvalidCompanion", "cannot unmarshal"),
        "taken": (CONFIG, "Pending", "CompanionConflict", "does not belong to this job"),
        "absent": (POOL, "Pending", "CompanionKindMissing", "Pool (x.example/v1) absent"),
        "refused": (SECRET, "Failed", "InvalidSpec", "no kind that jobs may ever bring along"),
    }

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
@with_testbed
async def test_the_definition_refuses_what_it_can_without_the_webhook(
    testbed: Testbed, companion: Object, words: str
) -> None:
    with pytest.raises(Invalid, match=words.replace(".", r"\.")):
        await testbed.submit(job("a", task(), companions=[companion]))
