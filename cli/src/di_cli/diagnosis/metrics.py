"""Check that the cluster measures the resource use of pods."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from di_api.conditions import condition_of
from di_api.field_error import mapping
from di_api.timestamps import parse_time
from di_api.wording import listed
from di_cli.diagnosis.facts import Facts, Object
from di_cli.diagnosis.finding import Finding, unread, warning

UNMEASURED: Final = timedelta(minutes=5)
"""Time after which a pod that is ready has been measured, by any usual resolution."""
_UNAVAILABLE: Final = 503
"""Status of an API that is registered, and whose server does not respond."""
_SHOWN: Final = 5


def check(facts: Facts) -> Iterator[Finding]:
    """Check metrics.k8s.io, and that it has all pods of jobs."""
    if facts.metrics.code == _UNAVAILABLE:
        yield warning(
            "metrics-server does not respond: di top and the page cannot show the resource use of "
            "pods",
            where=facts.metrics.words,
            remedy="kubectl describe apiservice v1beta1.metrics.k8s.io",
        )
    elif facts.metrics.is_missing:
        yield warning(
            "the cluster does not measure the resource use of pods: di top and the page cannot "
            "show it",
            remedy="have metrics-server installed",
        )
    elif not facts.metrics.is_good:
        yield unread(facts.metrics, "the resource use of pods (list pods of metrics.k8s.io)")
    elif facts.pods.is_good:
        yield from _unmeasured(facts)


def _unmeasured(facts: Facts) -> Iterator[Finding]:
    measured = {_name(each) for each in facts.metrics.found}
    pods = [
        pod for pod in facts.pods.found if _name(pod) not in measured and _has_to_be(pod, facts.now)
    ]
    if pods:
        nodes = {str(mapping(pod.get("spec")).get("nodeName") or "") for pod in pods}
        yield warning(
            f"running without a measurement: {listed([_name(pod) for pod in pods], _SHOWN)}, on "
            f"{listed(sorted(nodes), _SHOWN)}",
            remedy="see the log of metrics-server: it has to reach the kubelets of these nodes",
        )


def _name(found: Object) -> str:
    return str(mapping(found.get("metadata")).get("name") or "")


def _has_to_be(pod: Object, now: datetime) -> bool:
    """Return whether a pod has been ready for long enough to be measured, and is to stay."""
    if mapping(pod.get("metadata")).get("deletionTimestamp"):
        return False
    ready = condition_of(pod, "Ready")
    since = parse_time(ready.get("lastTransitionTime"))
    return ready.get("status") == "True" and since is not None and now - since > UNMEASURED
