"""Which paths name which job."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_server.model.references import JobRef
from di_server.problems import Malformed
from di_server.rest.job_id import parse_job_id

LONG = "a" * 63, "b" * 63


@pytest.mark.proves("rest.md#di-server-jobs-over-rest/names-a-job-by")
@pytest.mark.parametrize(
    ("text", "namespace", "name"),
    [
        *((text, "rl", "cartpole") for text in ("rl.cartpole", "rl.cartpole.7", "rl/cartpole")),
        *((f"job/{text}", "rl", "cartpole") for text in ("rl.cartpole", "rl.cartpole.7")),
        ("job/rl/cartpole", "rl", "cartpole"),
        ("job.cartpole", "job", "cartpole"),
        ("job/job/job", "job", "job"),
        (".".join(LONG), *LONG),
        (f"job/{'.'.join(LONG)}.{'9' * 19}", *LONG),
    ],
)
def test_every_form_names_the_job(text: str, namespace: str, name: str) -> None:
    assert parse_job_id(text) == JobRef(namespace, name)


BAD = [
    *("", ".", "/", "cartpole", "job", "job/", "job/cartpole", "rl.", ".cartpole"),
    *("rl.cartpole.x", "rl.cartpole.-1", "rl.cartpole.\u0663", "rl.cartpole.1.2", "rl.cart.pole/x"),
    *("rl/cartpole/7", "rl/cartpole.7", "job/rl/cartpole/7", "job/rl/cartpole.7", "rl./cartpole"),
    *("../kube-system", "rl/..", "rl.%2e%2e", "RL.cartpole", "rl.-cartpole", "rl.cartpole-"),
    *("rl.cart_pole", "rl.cartpole\n", "rl.cart\x00pole", "rl.cärtpole", f"rl.{'a' * 64}"),
    *(f"rl.{'a' * 254}", "a" * 50_000, "-" * 50_000, "job/" * 20_000, f"rl.cartpole.{'9' * 20}"),
]


@pytest.mark.parametrize("text", BAD, ids=lambda text: ascii(text[:24]))
def test_a_bad_job_id_is_refused_with_the_rule(text: str) -> None:
    with pytest.raises(Malformed, match="a job id is <namespace>"):
        parse_job_id(text)


@given(st.text())
def test_any_text_is_an_id_or_refused(text: str) -> None:
    try:
        ref = parse_job_id(text)
    except Malformed:
        return
    assert text.endswith((ref.id, ref.id.replace("/", "."))) or text.rpartition(".")[2].isdigit()
