"""An installation that is well, as the API server shows it, cut to what is looked at."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from di_api.admission_rules import ADMISSION_RULES
from di_certs.authority import Authority
from di_cli.diagnosis import Answer, Facts

Object = dict[str, Any]
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
FORBIDDEN = Answer(code=403, words="forbidden")
AWAY = Answer(code=0, words="connection refused")
MISSING = Answer(code=404, words="not found")
DENIED = 'admission webhook "validate.dijobs.diengine.opendilab.org" denied the request: too long'


def at(**before: float) -> str:
    """A time before now."""
    return (NOW - timedelta(**before)).isoformat()


@cache
def authority(days: float) -> str:
    """An authority that lives for so many days from now on, PEM."""
    started = NOW - timedelta(days=1000)
    made = Authority.create("test", now=started, lifetime=timedelta(days=1000 + days))
    return made.certificate_pem.decode()


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def metadata(name: str, component: str = "operator", version: str = "0.1.0") -> Object:
    labels = {"name": "di-orchestrator", "instance": "di", "component": component}
    labels["version"] = version
    return {
        "name": name,
        "namespace": "di-system",
        "labels": {f"app.kubernetes.io/{key}": value for key, value in labels.items()},
    }


def deployment(component: str, *, ready: int = 2, version: str = "0.1.0", **spec: Any) -> Object:
    return {
        "metadata": metadata(f"di-{component}", component, version),
        "spec": {"replicas": 2, **spec},
        "status": {"readyReplicas": ready},
    }


def configuration(bundle: str, *, policy: str = "Fail", rules: bool = True) -> Object:
    hook = {
        "name": "validate.dijobs.diengine.opendilab.org",
        "failurePolicy": policy,
        "rules": ADMISSION_RULES if rules else [],
        "clientConfig": {"caBundle": encoded(bundle), "service": {"namespace": "di-system"}},
    }
    return {"metadata": metadata("di-orchestrator", "webhook"), "webhooks": [hook]}


def definition(
    *, served: bool = True, version: str = "0.1.0", established: str = "True", bundle: str = ""
) -> Object:
    client = {"caBundle": encoded(bundle or authority(900))}
    return {
        "metadata": metadata("dijobs.diengine.opendilab.org", "crd", version),
        "spec": {
            "versions": [{"name": "v2alpha1", "served": served}],
            "conversion": {"webhook": {"clientConfig": client}},
        },
        "status": {"conditions": [{"type": "Established", "status": established}]},
    }


def lease(name: str = "di-operator", *, renewed: str = "", **spec: Any) -> Object:
    told = {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "renewTime": renewed or at(seconds=2),
    }
    return {"metadata": {"name": name}, "spec": {**told, **spec}}


def node(name: str = "gpu-1", *, unschedulable: bool = False, **conditions: str) -> Object:
    found = {"Ready": "True", **conditions}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {"unschedulable": unschedulable},
        "status": {"conditions": [{"type": kind, "status": v} for kind, v in found.items()]},
    }


def quota(hard: str, used: str) -> Object:
    status = {"hard": {"pods": hard, "cpu": "10"}, "used": {"pods": used, "cpu": "1500m"}}
    return {"metadata": {"name": "team"}, "status": status}


def job(phase: str = "Running", *, since: str = "", **changes: Any) -> Object:
    held = {"type": phase, "status": "True", "lastTransitionTime": since or at(hours=2)}
    return {
        "metadata": {
            "name": "cartpole",
            "creationTimestamp": at(hours=3),
            **changes.get("metadata", {}),
        },
        "spec": changes.get("spec", {}),
        "status": {"phase": phase, "conditions": [held, *changes.get("conditions", [])]},
    }


def pod(owner: str = "cartpole", *, bundle: str = "") -> Object:
    return {
        "metadata": {
            "name": f"{owner}-learner-0",
            "labels": {"diengine/job": owner},
            "annotations": {"diengine/server-ca": bundle or authority(900)},
        }
    }


def rights(*rules: Object, incomplete: bool = False) -> Object:
    return {"status": {"resourceRules": [*rules], "incomplete": incomplete}}


ALL = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}


def version(minor: str = "33") -> Object:
    return {"major": "1", "minor": minor, "gitVersion": f"v1.{minor}.0"}


def answer(*found: Object) -> Answer:
    return Answer(found=found)


def facts(**changes: Any) -> Facts:
    """Of that installation, with what is different."""
    well = authority(900)
    found: Object = {
        "namespace": "rl",
        "system": "di-system",
        "now": NOW,
        "local_now": NOW,
        "program": "0.1.0",
        "version": answer(version()),
        "rights": answer(rights(ALL)),
        "definition": answer(definition()),
        "mutating": answer(configuration(well)),
        "validating": answer(configuration(well)),
        "deployments": answer(*map(deployment, ("operator", "webhook", "server"))),
        "leases": answer(lease()),
        "refusal": Answer(code=403, words=DENIED),
        "server": answer(),
        "nodes": answer(node(), node("gpu-2")),
        "node_leases": answer(lease("gpu-1"), lease("gpu-2")),
        "quotas": answer(quota("10", "3"), quota("0", "0")),
        "jobs": answer(job()),
        "pods": answer(pod()),
        "metrics": answer(),
    }
    return Facts(**{**found, **changes})
