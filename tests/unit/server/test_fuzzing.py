"""No input makes the server fail."""

from __future__ import annotations

import json
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from di_kube.resources import AGGREGATOR_CONFIGS
from di_server.model.references import ConfigRef
from tests.unit.server.fakes import coordinated, job, make_harness, pod, replica, watch

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
_BODIES = st.one_of(
    st.binary(max_size=300),
    _JSON.map(lambda value: json.dumps(value).encode()),
    st.fixed_dictionaries({"replicas": _JSON}, optional={"task": _JSON, "data": _JSON}).map(
        lambda value: json.dumps(value).encode()
    ),
    st.builds(
        lambda count, name: json.dumps({"replicas": count, "task": name}).encode(),
        st.integers(-3, 3),
        st.sampled_from([None, "learner", "collector", "x"]),
    ),
)
_COORDINATORS = st.sampled_from(["cartpole-coordinator", "cartpole-aggregator-bbbbb"]) | _JSON
_SHARES = _JSON | st.fixed_dictionaries(
    {"replicas": st.integers(-1, 3) | _JSON},
    optional={
        "cpus": st.sampled_from(["1", 0.5, "500m"]) | _JSON,
        "gpus": st.integers(-1, 20) | _JSON,
        "memory": st.from_regex(r"[0-9.eEkMGTi+-]{0,70}", fullmatch=True) | _JSON,
    },
)
_DEMANDS = st.fixed_dictionaries(
    {"namespace": st.just("rl") | _JSON, "coordinator": _COORDINATORS},
    optional={
        key: _SHARES | st.lists(st.sampled_from(["c1", "a1"]) | _JSON, max_size=4)
        for key in ("collectors", "learners")
    },
).map(lambda value: json.dumps(value).encode())
_QUERIES = st.dictionaries(
    st.sampled_from(["namespace", "coordinator", "aggregator", "name", "NAME"])
    | st.text(max_size=8),
    st.sampled_from(["rl", "cartpole-coordinator", "cartpole-aggregator-bbbbb", ""])
    | st.text(max_size=70),
    max_size=3,
)
_IDS = st.one_of(
    st.text(min_size=1, max_size=300),
    st.from_regex(r"(job/)?[a-z0-9.-]{0,70}[./][a-z0-9.-]{0,70}(\.[0-9]*)?", fullmatch=True),
    st.sampled_from(["rl.cartpole", "rl/cartpole", "job/rl/cartpole", "rl.cartpole.1"]),
)
_HEADERS = st.dictionaries(
    st.sampled_from(["Idempotency-Key", "Authorization", "Content-Type", "X-Forwarded-For"]),
    st.text(st.characters(codec="latin-1", exclude_characters="\r\n"), max_size=40),
)


@given(
    ids=_IDS,
    resource=st.sampled_from(["replicas", "profilings"]),
    method=st.sampled_from(["GET", "POST", "DELETE", "PUT"]),
    body=_BODIES,
    headers=_HEADERS,
)
def test_no_request_is_a_server_error(
    ids: str, resource: str, method: str, body: bytes, headers: dict[str, str]
) -> None:
    harness = make_harness(rate=1e6, burst=1_000_000)
    harness.add(job())
    harness.add_pods(pod("a", 0, "10.0.0.1"))
    path = f"/v2alpha1/{quote(ids.encode('utf-8', 'replace'))}/{resource}"
    answer = harness.client.open(path, method=method, data=body, headers=headers)
    assert answer.status_code < 500, answer.text
    assert list(json.loads(answer.data)) == ["success", "code", "message", "data"]
    assert "'" not in answer.text or answer.status_code == 200
    assert 1 <= harness.replicas() <= 5


@given(
    path=st.sampled_from(["", "/failed", "/x"]),
    method=st.sampled_from(["GET", "POST", "DELETE", "PUT"]),
    query=_QUERIES,
    body=_DEMANDS | _BODIES,
    headers=_HEADERS,
    watched=st.booleans(),
)
def test_no_request_of_a_coordinator_is_a_server_error(
    *,
    path: str,
    method: str,
    query: dict[str, str],
    body: bytes,
    headers: dict[str, str],
    watched: bool,
) -> None:
    config = ConfigRef("rl", "aggregators")
    harness = make_harness(rate=1e6, burst=1_000_000, config=config)
    metadata = {"name": config.name, "namespace": config.namespace}
    harness.kube.put(AGGREGATOR_CONFIGS, {"metadata": metadata})
    harness.add(
        coordinated(
            replica("c1"),
            replica("cartpole-aggregator-bbbbb", "aggregator"),
            replica("a1", "ddp-learner", aggregator="cartpole-aggregator-bbbbb"),
        )
    )
    if watched:
        watch(harness)
    answer = harness.client.open(
        f"/v1alpha1/replicas{path}", method=method, query_string=query, data=body, headers=headers
    )
    assert answer.status_code in (200, 400, 401, 404, 422, 501), answer.text
    assert list(json.loads(answer.data)) == ["success", "code", "message", "data"]
    assert "'" not in answer.text
    before, after = 3, harness.job()["spec"]["coordinated"]["replicas"]
    assert len(after) == len({each["name"] for each in after})
    if answer.status_code != 200:
        assert len(after) == before
