"""Each fault of an installation that is seeded is found, under its topic, and nothing else is."""

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


SEEDED: Final[dict[str, tuple[dict[str, Any], str, Severity, str]]] = {
    "an API server that is away": ({"version": AWAY}, "cluster", FAULT, "does not answer"),
    "a token that has expired": (
        {"version": Answer(code=401)},
        "cluster",
        FAULT,
        "does not know you",
    ),
    "an old cluster": ({"version": answer(version("29+"))}, "cluster", FAULT, "older than 1.30"),
    "a local clock that is behind": (
        {"local_now": NOW - timedelta(seconds=90)},
        "clocks",
        WARNING,
        "90 s behind",
    ),
    "a local clock that is far ahead": (
        {"local_now": NOW + timedelta(hours=1)},
        "clocks",
        FAULT,
        "3600 s ahead",
    ),
    "a node's clock": (
        {"node_leases": answer(lease("gpu-1"), lease("gpu-2", renewed=at(minutes=-2)))},
        "clocks",
        WARNING,
        "gpu-2 (120 s)",
    ),
    "no right to make jobs": (
        {"rights": answer(rights(READ_ONLY))},
        "rights",
        WARNING,
        "create dijobs (di submit)",
    ),
    "no right to logs": (
        {"rights": answer(rights(BUT_LOGS))},
        "rights",
        WARNING,
        "may not get pods/log (di logs)",
    ),
    "rights of one job alone": (
        {"rights": answer(rights(ONE_JOB))},
        "rights",
        WARNING,
        "list dijobs",
    ),
    "no CRD": ({"definition": MISSING}, "definition", FAULT, "knows no DIJobs"),
    "a version that is not served": (
        {"definition": answer(definition(served=False))},
        "definition",
        FAULT,
        "does not serve v2alpha1",
    ),
    "a CRD that is not established": (
        {"definition": answer(definition(established="False"))},
        "definition",
        FAULT,
        "not Established",
    ),
    "nothing installed": ({"deployments": answer()}, "installation", FAULT, "no release"),
    "no operator": (
        {"deployments": _services(operator=None)},
        "installation",
        FAULT,
        "has no di-operator",
    ),
    "no server": (
        {"deployments": _services(server=None)},
        "installation",
        WARNING,
        "has no di-server",
    ),
    "a webhook without pods": (
        {"deployments": _services(webhook={"ready": 0})},
        "installation",
        FAULT,
        "0 of 2 pods of di-webhook",
    ),
    "a pod that is missing": (
        {"deployments": _services(server={"ready": 1})},
        "installation",
        WARNING,
        "1 of 2 pods of di-server",
    ),
    "an operator that is scaled to none": (
        {"deployments": _services(operator={"ready": 0, "replicas": 0})},
        "installation",
        FAULT,
        "scaled to none",
    ),
    "a rollout that is paused": (
        {"deployments": _services(operator={"paused": True})},
        "installation",
        WARNING,
        "is paused",
    ),
    "services of two versions": (
        {"deployments": _services(server={"version": "0.0.9"})},
        "installation",
        WARNING,
        "di-server 0.0.9, di-operator and di-webhook 0.1.0",
    ),
    "an old CRD": (
        {"definition": answer(definition(version="0.0.9"))},
        "installation",
        WARNING,
        "the CRD of DIJobs is of version 0.0.9",
    ),
    "another di": ({"program": "0.2.0"}, "installation", WARNING, "di is of version 0.2.0"),
    "no leader, ever": ({"leases": answer()}, "operator", FAULT, "has ever led"),
    "a leader that has gone": (
        {"leases": answer(lease(holderIdentity=""))},
        "operator",
        FAULT,
        "given it up",
    ),
    "a leader that is silent": (
        {"leases": answer(lease(renewed=at(minutes=5)))},
        "operator",
        FAULT,
        "for 300 s",
    ),
    "a webhook that nobody asks": (
        {"refusal": answer(job())},
        "webhook",
        WARNING,
        "are stored without a review by the webhook",
    ),
    "a webhook that is not reached": (
        {"refusal": Answer(code=500, words=UNREACHED)},
        "webhook",
        FAULT,
        "does not reach the webhook",
    ),
    "a webhook that is not trusted": (
        {"refusal": Answer(code=500, words=UNTRUSTED)},
        "webhook",
        FAULT,
        "does not trust",
    ),
    "a webhook that has no rules yet": (
        {"refusal": answer(job()), "validating": answer(configuration("", rules=False))},
        "webhook",
        WARNING,
        "has no rules",
    ),
    "a second release, whose webhook has no rules": (
        {"validating": answer(configuration(authority(900)), configuration("", rules=False))},
        "webhook",
        WARNING,
        "has no rules",
    ),
    "a webhook that may be passed by": (
        {"validating": answer(configuration(authority(900), policy="Ignore"))},
        "webhook",
        WARNING,
        "stored unjudged",
    ),
    "an authority that has expired": (
        {
            "mutating": answer(configuration(EXPIRED)),
            "validating": answer(configuration(EXPIRED)),
            "definition": answer(definition(bundle=EXPIRED)),
        },
        "certificates",
        FAULT,
        "has expired",
    ),
    "an authority that nobody renews": (
        {"pods": answer(pod(bundle=SHORT))},
        "certificates",
        WARNING,
        "expires 2026-03-06",
    ),
    "authorities that differ": (
        {"validating": answer(configuration(OTHER))},
        "certificates",
        WARNING,
        "different authorities",
    ),
    "an authority that is none": (
        {"pods": answer(pod(bundle="none"))},
        "certificates",
        FAULT,
        "is none",
    ),
    "a server that is not there": ({"server": MISSING}, "server", WARNING, "no di-server"),
    "a server that does not answer": (
        {"server": Answer(code=503, words="no endpoints available")},
        "server",
        FAULT,
        "does not answer",
    ),
    "a node that is lost": (
        {"nodes": answer(node(), node("gpu-2", Ready="Unknown"))},
        "nodes",
        WARNING,
        "1 of 2 nodes are not ready: gpu-2",
    ),
    "no node that is ready": (
        {"nodes": answer(node(Ready="False"))},
        "nodes",
        FAULT,
        "1 of 1 nodes",
    ),
    "a disk that is full": (
        {"nodes": answer(node(DiskPressure="True"), node("gpu-2"))},
        "nodes",
        WARNING,
        "DiskPressure on gpu-1",
    ),
    "nodes that are cordoned": (
        {"nodes": answer(node(unschedulable=True))},
        "nodes",
        FAULT,
        "every node is cordoned",
    ),
    "a quota that is used up": (
        {"quotas": answer(quota("3", "3"))},
        "quota",
        WARNING,
        "pods 3 of 3",
    ),
    "a job that nobody looks at": (
        {"jobs": answer(job(""))},
        "jobs",
        FAULT,
        "no operator has looked at cartpole",
    ),
    "a job that cannot be deleted": (
        {"jobs": answer(job(metadata={"deletionTimestamp": at(hours=1)}))},
        "jobs",
        FAULT,
        "being deleted",
    ),
    "a job that the operator fails on": (
        {"jobs": answer(job(conditions=[_holds("ReconcileFailed")]))},
        "jobs",
        WARNING,
        "ReconcileFailed is said of cartpole",
    ),
    "a job that waits": ({"jobs": answer(job("Pending"))}, "jobs", WARNING, "waiting for more"),
    "a job that was forgotten": (
        {"jobs": answer(job("Pending", since=at(days=9), spec={"suspend": True}))},
        "jobs",
        WARNING,
        "suspended for more than a week: cartpole",
    ),
    "jobs that nobody clears away": (
        {"jobs": answer(job(), *[job("Succeeded")] * 201)},
        "jobs",
        WARNING,
        "201 jobs are over",
    ),
    "a pod of a job that is gone": (
        {"pods": answer(pod(), pod("old"))},
        "jobs",
        WARNING,
        "pods of jobs that are gone: old-learner-0",
    ),
    "a run that was killed": (
        {"killed_runs": ("/home/ann/runs/x",)},
        "local",
        WARNING,
        "ended without clearing away",
    ),
    "no metrics": ({"metrics": MISSING}, "metrics", WARNING, "di top"),
}
"""What differs from an installation that is well; topic, severity and words that are found."""


def test_an_installation_that_is_well_has_no_findings() -> None:
    assert [(report.topic, report.findings) for report in diagnose(facts())] == [
        (topic, ()) for topic in CHECKS
    ]


@pytest.mark.parametrize("name", SEEDED)
def test_a_seeded_fault_is_found_and_nothing_else(name: str) -> None:
    changes, topic, severity, words = SEEDED[name]
    reports = diagnose(facts(**changes))
    assert {report.topic for report in reports if report.findings} == {topic}
    for report in reports:
        for finding in report.findings:
            assert finding.severity is severity
            assert words in finding.what
            assert finding.remedy


@pytest.mark.parametrize("refused", [FORBIDDEN, Answer(code=500, words="etcd")])
def test_what_may_not_be_read_is_said_and_no_fault(refused: Answer) -> None:
    asked = {each.name: refused for each in fields(Facts) if each.default is NOTHING}
    found = diagnose(facts(**(asked if refused.is_refused else {**asked, **_KNOWN})))
    severities = {finding.severity for report in found for finding in report.findings}
    assert severities == {Severity.UNREAD}
    # A local clock and what it is compared with are always there.
    assert [report.topic for report in found] == [*CHECKS]
    assert all(report.findings for report in found if report.topic not in ("cluster", "local"))


_KNOWN: Final = {"version": answer(version()), "server": FORBIDDEN}


def test_rights_that_the_api_server_does_not_know_are_no_fault() -> None:
    (finding,) = _findings(facts(rights=answer(rights(incomplete=True))))
    assert finding.severity is Severity.UNREAD
    assert "create dijobs" in finding.what


def _findings(seen: Facts) -> list[Any]:
    return [finding for report in diagnose(seen) for finding in report.findings]
