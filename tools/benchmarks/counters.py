"""The API server's own count of requests: what everybody asked of it, whoever asked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from typing_extensions import override

from di_kube.client import KubeClient

WRITES = ("POST", "PUT", "PATCH", "APPLY", "DELETE")
_SAMPLE = re.compile(r"^apiserver_request_total\{(?P<labels>[^}]*)\} (?P<value>\S+)$", re.M)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class Request(NamedTuple):
    """A kind of request."""

    verb: str
    resource: str
    """With the subresource, as in `pods/status`."""

    @override
    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"


# Who writes what while jobs run to their end. Pod statuses are the kubelet's, EndpointSlices the
# controller manager's, jobs the driver's; no two of them share a kind of write.
OPERATOR = frozenset(
    Request(verb, resource)
    for verb, resource in (
        ("POST", "services"),
        ("DELETE", "services"),
        ("POST", "pods"),
        ("DELETE", "pods"),
        ("POST", "configmaps"),
        ("PUT", "configmaps"),
        ("DELETE", "configmaps"),
        ("PUT", "dijobs/status"),
        ("PUT", "pytorchjobs"),
        ("PUT", "pytorchjobs/status"),
        ("POST", "events"),
        ("PATCH", "events"),
    )
)


def parse(metrics: str) -> Counter[Request]:
    """Requests by verb and resource from the text of `/metrics`, all status codes together."""
    found: Counter[Request] = Counter()
    for sample in _SAMPLE.finditer(metrics):
        labels = dict(_LABEL.findall(sample["labels"]))
        resource = labels["resource"]
        if labels["subresource"]:
            resource += f"/{labels['subresource']}"
        found[Request(labels["verb"], resource)] += int(float(sample["value"]))
    return found


async def requests(client: KubeClient) -> Counter[Request]:
    """Requests the API server has answered so far."""
    return parse((await client.raw("/metrics")).decode())


def writes(requests: Mapping[Request, int]) -> dict[Request, int]:
    """Those that change something, most frequent first."""
    chosen = {key: count for key, count in requests.items() if key.verb in WRITES and count}
    return dict(sorted(chosen.items(), key=lambda item: (-item[1], item[0])))


def of_operator(requests: Mapping[Request, int]) -> dict[Request, int]:
    """The writes that only an operator makes."""
    return {key: count for key, count in writes(requests).items() if key in OPERATOR}


def of_client(metrics: str) -> Counter[Request]:
    """Requests that an operator has made, by its own count."""
    found: Counter[Request] = Counter()
    for sample in re.finditer(r"^di_operator_api_requests_total\{([^}]*)\} (\S+)$", metrics, re.M):
        labels = dict(_LABEL.findall(sample[1]))
        found[Request(labels["verb"], labels["plural"])] += int(float(sample[2]))
    return found
