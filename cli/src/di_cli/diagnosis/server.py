"""Check that di-server responds, through the API server."""

from __future__ import annotations

from collections.abc import Iterator

from di_api.names import SERVER_NAME
from di_cli.diagnosis.facts import Facts
from di_cli.diagnosis.finding import Finding, fault, unread, warning


def check(facts: Facts) -> Iterator[Finding]:
    """Check its response."""
    answer, where = facts.server, f"Service {facts.system}/{SERVER_NAME}"
    if answer.is_good:
        return
    if answer.is_missing:
        yield warning(
            "there is no di-server: jobs cannot be scaled by REST, and report nothing",
            where=where,
            remedy="helm upgrade with server.enabled=true",
        )
    elif answer.is_refused:
        yield unread(answer, "di-server (get services/proxy)")
    else:
        yield fault(
            "di-server does not answer",
            where=f"{where}: {answer.words}",
            remedy=f"kubectl get pods -n {facts.system} -l app.kubernetes.io/component=server",
        )
