"""The diagnosis of an installation finds each seeded fault, and nothing else."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from typing import Any, Final

import pytest

from di_cli.diagnosis import Answer, Facts, Severity, diagnose
from di_cli.diagnosis.checks import CHECKS
from di_cli.diagnosis.facts import NOTHING
from tests.unit.cli.installation import (
    AWAY,
    FORBIDDEN,
    MISSING,
    NOW,
    answer,
    at,
    authority,
    configuration,
    definition,
    deployment,
    facts,
    job,
    lease,
    node,
    pod,
    quota,
    rights,
    version,
)

FAULT, WARNING = Severity.FAULT, Severity.WARNING
EXPIRED, SHORT, OTHER = authority(-1), authority(5), authority(901)
READ_ONLY = {"verbs": ["get", "list"], "apiGroups": ["*"], "resources": ["*"]}
BUT_LOGS = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["dijobs", "pods", "events"]}
ONE_JOB = {**READ_ONLY, "verbs": ["*"], "resourceNames": ["cartpole"]}
UNTRUSTED = (
    'Internal error occurred: failed calling webhook "validate.dijobs": failed to call webhook: '
    'Post "https://di-webhook.di-system.svc:8443/validate": tls: failed to verify certificate: '
    "x509: certificate signed by unknown authority"
)
UNREACHED = (
    'Internal error occurred: failed calling webhook "validate.dijobs": failed to call webhook: '
    'Post "https://di-webhook.di-system.svc:8443/validate": no endpoints available for service'
)
_SERVICES = ("operator", "webhook", "server")


def _ready(index: int, node: str, *, minutes: float = 10) -> dict[str, Any]:
    """A pod of a job that runs on that node, ready for so long."""
    body = pod()
    body["metadata"]["name"] = f"cartpole-learner-{index}"
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": at(minutes=minutes)}
    status = {"phase": "Running", "conditions": [ready]}
    return {**body, "spec": {"nodeName": node}, "status": status}


def _services(**changed: dict[str, Any] | None) -> Answer:
    """The Deployments, one of them different or not there."""
    return answer(
        *(
            deployment(name, **(changed.get(name) or {}))
            for name in _SERVICES
            if changed.get(name, {}) is not None
        )
    )


def _holds(kind: str) -> Any:
    return {"type": kind, "status": "True"}


SEEDED: Final[dict[str, list[tuple[Severity, str, dict[str, Any]]]]] = {
    "cluster": [
        (FAULT, "does not answer", {"version": AWAY}),
        (FAULT, "does not know you", {"version": Answer(code=401)}),
        (FAULT, "older than 1.30", {"version": answer(version("29+"))}),
    ],
    "clocks": [
        (WARNING, "90 s behind", {"local_now": NOW - timedelta(seconds=90)}),
        (FAULT, "3600 s ahead", {"local_now": NOW + timedelta(hours=1)}),
        (
            WARNING,
            "gpu-2 (120 s)",
            {"node_leases": answer(lease("gpu-1"), lease("gpu-2", renewed=at(minutes=-2)))},
        ),
    ],
    "rights": [
        (WARNING, "create dijobs (di submit)", {"rights": answer(rights(READ_ONLY))}),
        (WARNING, "may not get pods/log (di logs)", {"rights": answer(rights(BUT_LOGS))}),
        (WARNING, "list dijobs", {"rights": answer(rights(ONE_JOB))}),
    ],
    "definition": [
        (FAULT, "knows no DIJobs", {"definition": MISSING}),
        (FAULT, "does not serve v2alpha1", {"definition": answer(definition(served=False))}),
        (FAULT, "not Established", {"definition": answer(definition(established="False"))}),
    ],
    "installation": [
        (FAULT, "no release", {"deployments": answer()}),
        (FAULT, "has no di-operator", {"deployments": _services(operator=None)}),
        (WARNING, "has no di-server", {"deployments": _services(server=None)}),
        (FAULT, "0 of 2 pods of di-webhook", {"deployments": _services(webhook={"ready": 0})}),
        (WARNING, "1 of 2 pods of di-server", {"deployments": _services(server={"ready": 1})}),
        (FAULT, "scaled to none", {"deployments": _services(operator={"ready": 0, "replicas": 0})}),
        (WARNING, "is paused", {"deployments": _services(operator={"paused": True})}),
        (
            WARNING,
            "di-server 0.0.9, di-operator and di-webhook 0.1.0",
            {"deployments": _services(server={"version": "0.0.9"})},
        ),
        (
            WARNING,
            "the CRD of DIJobs is of version 0.0.9",
            {"definition": answer(definition(version="0.0.9"))},
        ),
        (WARNING, "di is of version 0.2.0", {"program": "0.2.0"}),
    ],
    "operator": [
        (FAULT, "has ever led", {"leases": answer()}),
        (FAULT, "given it up", {"leases": answer(lease(holderIdentity=""))}),
        (FAULT, "for 300 s", {"leases": answer(lease(renewed=at(minutes=5)))}),
    ],
    "webhook": [
        (WARNING, "are stored without a review by the webhook", {"refusal": answer(job())}),
        (FAULT, "does not reach the webhook", {"refusal": Answer(code=500, words=UNREACHED)}),
        (FAULT, "does not trust", {"refusal": Answer(code=500, words=UNTRUSTED)}),
        (
            WARNING,
            "has no rules",
            {"refusal": answer(job()), "validating": answer(configuration("", rules=False))},
        ),
        (
            WARNING,
            "has no rules",
            {"validating": answer(configuration(authority(900)), configuration("", rules=False))},
        ),
        (
            WARNING,
            "stored unjudged",
            {"validating": answer(configuration(authority(900), policy="Ignore"))},
        ),
    ],
    "certificates": [
        (
            FAULT,
            "has expired",
            {
                "mutating": answer(configuration(EXPIRED)),
                "validating": answer(configuration(EXPIRED)),
                "definition": answer(definition(bundle=EXPIRED)),
            },
        ),
        (WARNING, "expires 2026-03-06", {"pods": answer(pod(bundle=SHORT))}),
        (WARNING, "different authorities", {"validating": answer(configuration(OTHER))}),
        (FAULT, "is none", {"pods": answer(pod(bundle="none"))}),
    ],
    "server": [
        (WARNING, "no di-server", {"server": MISSING}),
        (FAULT, "does not answer", {"server": Answer(code=503, words="no endpoints available")}),
    ],
    "nodes": [
        (
            WARNING,
            "1 of 2 nodes are not ready: gpu-2",
            {"nodes": answer(node(), node("gpu-2", Ready="Unknown"))},
        ),
        (FAULT, "1 of 1 nodes", {"nodes": answer(node(Ready="False"))}),
        (
            WARNING,
            "DiskPressure on gpu-1",
            {"nodes": answer(node(DiskPressure="True"), node("gpu-2"))},
        ),
        (FAULT, "every node is cordoned", {"nodes": answer(node(unschedulable=True))}),
    ],
    "quota": [(WARNING, "pods 3 of 3", {"quotas": answer(quota("3", "3"))})],
    "jobs": [
        (FAULT, "no operator has looked at cartpole", {"jobs": answer(job(""))}),
        (
            FAULT,
            "being deleted",
            {"jobs": answer(job(metadata={"deletionTimestamp": at(hours=1)}))},
        ),
        (
            WARNING,
            "ReconcileFailed is said of cartpole",
            {"jobs": answer(job(conditions=[_holds("ReconcileFailed")]))},
        ),
        (WARNING, "waiting for more", {"jobs": answer(job("Pending"))}),
        (
            WARNING,
            "suspended for more than a week: cartpole",
            {"jobs": answer(job("Pending", since=at(days=9), spec={"suspend": True}))},
        ),
        (WARNING, "201 jobs are over", {"jobs": answer(job(), *[job("Succeeded")] * 201)}),
        (WARNING, "pods of jobs that are gone: old-learner-0", {"pods": answer(pod(), pod("old"))}),
    ],
    "local": [(WARNING, "ended without clearing away", {"killed_runs": ("/home/ann/runs/x",)})],
    "metrics": [
        (WARNING, "does not measure the resource use", {"metrics": MISSING}),
        (
            WARNING,
            "metrics-server does not respond",
            {"metrics": Answer(code=503, words="service unavailable")},
        ),
        (
            WARNING,
            "without a measurement: cartpole-learner-0, cartpole-learner-1, on gpu-1, gpu-2",
            {"pods": answer(_ready(0, "gpu-1"), _ready(1, "gpu-2"))},
        ),
    ],
}
"""By topic: severity and message of a finding, and the difference from a good installation."""
ROWS: Final = [(topic, *row) for topic, rows in SEEDED.items() for row in rows]


def test_a_pod_that_is_measured_new_or_being_deleted_is_no_finding() -> None:
    pods = [_ready(0, "gpu-1"), _ready(1, "gpu-2", minutes=1), _ready(2, "gpu-2")]
    pods[2]["metadata"]["deletionTimestamp"] = at(minutes=1)
    metrics = {"metadata": {"name": pods[0]["metadata"]["name"]}, "containers": []}
    reports = diagnose(facts(pods=answer(*pods), metrics=answer(metrics)))
    assert not any(report.findings for report in reports)


def test_a_good_installation_has_no_findings() -> None:
    assert [(report.topic, report.findings) for report in diagnose(facts())] == [
        (topic, ()) for topic in CHECKS
    ]


@pytest.mark.proves("cli.md#doctor")
@pytest.mark.parametrize(
    ("topic", "severity", "message", "changes"), ROWS, ids=[row[2] for row in ROWS]
)
def test_a_seeded_fault_is_the_only_finding(
    topic: str, severity: Severity, message: str, changes: dict[str, Any]
) -> None:
    reports = diagnose(facts(**changes))
    assert {report.topic for report in reports if report.findings} == {topic}
    for report in reports:
        for finding in report.findings:
            assert finding.severity is severity
            assert message in finding.what
            assert finding.remedy


@pytest.mark.parametrize("refused", [FORBIDDEN, Answer(code=500, words="etcd")])
def test_what_cannot_be_read_is_reported_as_unread(refused: Answer) -> None:
    asked = {each.name: refused for each in fields(Facts) if each.default is NOTHING}
    found = diagnose(facts(**(asked if refused.is_refused else {**asked, **_KNOWN})))
    severities = {finding.severity for report in found for finding in report.findings}
    assert severities == {Severity.UNREAD}
    # A local clock and what it is compared with are always there.
    assert [report.topic for report in found] == [*CHECKS]
    assert all(report.findings for report in found if report.topic not in ("cluster", "local"))


_KNOWN: Final = {"version": answer(version()), "server": FORBIDDEN}


def test_rights_that_the_api_server_cannot_list_are_unread() -> None:
    (finding,) = _findings(facts(rights=answer(rights(incomplete=True))))
    assert finding.severity is Severity.UNREAD
    assert "create dijobs" in finding.what


def _findings(seen: Facts) -> list[Any]:
    return [finding for report in diagnose(seen) for finding in report.findings]
