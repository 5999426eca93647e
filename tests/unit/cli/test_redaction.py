"""Nothing that is secret gets into an archive, and what explains something does."""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_cli.bundle.contents import Material, files
from di_cli.bundle.known import REDACTED
from di_cli.bundle.redact import redacted
from di_cli.bundle.secrets import LONGEST_LINE, cleaned
from di_operator.builders.access import HEADER_DRAIN

SECRET = "s3cr3t-Hunter2"
_LETTERS = string.ascii_letters + string.digits + "+/=_-!#$%^*?~"
# Hypothesis likes to try words of the program, which stand in every archive.
_SECRETS = st.text(_LETTERS, min_size=4, max_size=40).map(lambda text: f"q7{text}Zw")


def _container(**fields: Any) -> dict[str, Any]:
    return {"kind": "Pod", "spec": {"containers": [{"name": "c", **fields}]}}


def _named(name: str, value: str) -> dict[str, Any]:
    return _container(env=[{"name": name, "value": value}])


PLACES: dict[str, Callable[[str], Any]] = {
    "a variable": lambda secret: _named("WANDB_API_KEY", secret),
    "a password's variable": lambda secret: _named("DB_PASSWORD", secret),
    "a variable that ends so": lambda secret: _named("REDIS_PASS", secret),
    "a URL": lambda secret: _named("DATABASE", f"postgres://bob:{_plain(secret)}@db/x"),
    "a flag": lambda secret: _container(args=["--token", secret, "--steps", "5"]),
    "a flag with its value": lambda secret: _container(args=[f"--hf-token={secret}"]),
    "a shell": lambda secret: _container(args=["-c", f"login --password {secret}; train"]),
    "an assignment": lambda secret: _container(args=["-c", f"export API_KEY='{secret}'"]),
    "a companion's field": lambda secret: {"kind": "ConfigMap", "data": {"password": secret}},
    "a companion's file": lambda secret: {
        "kind": "ConfigMap",
        "data": {"config.json": json.dumps({"user": "bob", "access_key": secret})},
    },
    "a companion's properties": lambda secret: {
        "kind": "ConfigMap",
        "data": {"app.properties": f"user=bob\ndb.password = {secret}\nsize=3"},
    },
    "a header": lambda secret: _container(args=[f"Authorization: Bearer {secret}"]),
    "a drain's token": lambda secret: _container(
        lifecycle={
            "preStop": {"httpGet": {"httpHeaders": [{"name": HEADER_DRAIN, "value": secret}]}}
        }
    ),
    "the last applied configuration": lambda secret: {
        "metadata": {
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": json.dumps(
                    _named("MY_TOKEN", secret)
                )
            }
        }
    },
    "managed fields": lambda secret: {"metadata": {"managedFields": [{"manager": secret}]}},
    "a registry's Secret": lambda secret: {"spec": {"imagePullSecrets": [{"name": secret}]}},
    "a Secret": lambda secret: {
        "apiVersion": "v1",
        "kind": "Secret",
        "data": {"x": base64.b64encode(secret.encode()).decode()},
        "stringData": {"y": secret},
    },
    "an event": lambda secret: {"message": f"pull of https://bob:{_plain(secret)}@reg/x failed"},
}
"""Objects with a secret in them."""
NOT_PRINTED = {"managed fields", "a registry's Secret", "a Secret"}
"""Places whose values are not recognised in a log."""


def _plain(secret: str) -> str:
    """As it may stand in a URL."""
    return "".join(c for c in secret if c.isalnum()).ljust(8, "x")


def _archive(value: Any, *lines: str) -> bytes:
    made = files(
        Material(objects={"x.json": value}, texts={"x.log": lines}, unread=[" ".join(lines)])
    )
    return b"\n".join(made.values())


@pytest.mark.parametrize("place", PLACES)
@given(secret=_SECRETS)
def test_a_planted_secret_never_gets_in(place: str, secret: str) -> None:
    """Not from where it stands, nor from a log that repeats it: plain, as JSON and in base64."""
    planted = _plain(secret) if place in ("a URL", "an event") else secret
    encoded = base64.b64encode(planted.encode()).decode()
    repeated = (
        ()
        if place in NOT_PRINTED
        else (f"starts with {planted} now", json.dumps({"x": planted}), f"b64 {encoded}")
    )
    archive = _archive(PLACES[place](secret), *repeated).decode()
    for form in (planted, json.dumps(planted)[1:-1], encoded.rstrip("=")):
        assert form not in archive


@pytest.mark.parametrize(
    "line",
    [
        f"token={SECRET}",
        f'"client_secret": "{SECRET}"',
        f"'aws_secret_access_key': '{SECRET}'",
        f"PASSWORD: {SECRET}, next",
        f"GET /x?sig={SECRET}&a=1",
        f"PASSWORD='{SECRET}",
        f"https://storage/x?X-Amz-Signature={SECRET}&y=1",
        f"redis://:{SECRET}@cache:6379/0",
        f"https://user:{SECRET}@example.org/x",
        f"authorization: bearer {SECRET}",
        f"curl -H 'Authorization: Basic {SECRET}'",
        f"login --registry-password {SECRET}",
        f'{{\\"api_key\\": \\"{SECRET}\\"}}',
        f"Set-Cookie: {SECRET}; path=/",
    ],
)
def test_a_line_of_a_log_is_cleaned(line: str) -> None:
    assert SECRET not in cleaned(line)


@pytest.mark.parametrize(
    "secret",
    [
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "AKIAABCDEFGHIJKLMNOP",
        "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "hf_abcdefghijklmnopqrstuvwxyz",
        "sk-proj-abcdefghijklmnopqrstuv",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMIIE, cut off",
    ],
)
def test_known_forms_of_keys_and_tokens_are_redacted(secret: str) -> None:
    archive = _archive({"x": f"it is {secret}"}, *secret.splitlines()).decode()
    for line in secret.splitlines():
        assert line not in archive


def test_harmless_fields_and_lines_are_kept() -> None:
    pod = {
        "metadata": {"name": "a-learner-0", "annotations": {"diengine/rank": "0"}},
        "spec": {
            "serviceAccountName": "trainer",
            "automountServiceAccountToken": False,
            "volumes": [{"name": "v", "secret": {"secretName": "data"}}],
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "containers": [
                {
                    "env": [
                        {"name": "STEPS", "value": "10000"},
                        {"name": "MAX_TOKENS", "value": "32768"},
                        {"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                    ],
                    "args": ["--steps", "10000", "--lr=0.1"],
                }
            ],
        },
        "status": {"message": 'secret "none" not found; configmap "x": couldn\'t find key level'},
    }
    assert redacted(pod) == pod
    for line in (
        "step 12: 45.2 tokens/s, loss=0.12",
        "tokenizer: 32768 words",
        "ErrImagePull: https://registry.example.org/x not found",
        "Error: keyboard=none",
    ):
        assert cleaned(line) == line


def test_the_archive_is_bounded_and_lists_omissions() -> None:
    material = Material(
        objects={f"{name}.json": {"x": "y" * 400} for name in "abc"},
        texts={"long.log": ["z" * 2000]},
        unread=["nodes: forbidden"],
    )
    made = files(material, most=1000)
    assert list(made) == ["README.txt", "a.json", "b.json"]
    about = made["README.txt"].decode()
    assert about.endswith("Not read:\n  nodes: forbidden\n\nNo room for:\n  c.json\n  long.log\n")


def test_a_bounded_log_keeps_its_last_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("di_cli.bundle.contents.MOST_OF_ONE", 1 << 16)
    lines = [f"line {number} of many" for number in range(10_000)]
    (_, log) = files(Material(objects={}, texts={"x.log": lines})).values()
    assert len(log) < 2 << 16
    first, *others = log.decode().splitlines()
    assert first.endswith("it is too long")
    assert others == lines[-len(others) :]


@pytest.mark.parametrize(
    "text",
    [
        *("x" * 500_000, "token" * 20_000, "-" * 500_000, "://" * 100_000),
        *("eyJaaaaaa" * 20_000, "-----BEGIN PRIVATE KEY" * 10_000),
    ],
)
def test_a_very_long_line_is_cut(text: str) -> None:
    """A program may write one line of megabytes; a pattern that looks at it again and again from
    each of its characters would not end before the test's time is over."""
    found = cleaned(text)
    assert found.startswith((text[:100], REDACTED))
    assert len(found) <= LONGEST_LINE + 20


def test_a_very_deep_object_is_cut() -> None:
    deep: Any = SECRET
    for _ in range(200):
        deep = {"x": deep}
    assert REDACTED in json.dumps(redacted(deep))


def test_a_private_key_without_an_end_is_cut_out_of_a_long_log() -> None:
    body = "\n".join(["q7" * 32] * 100)
    found = cleaned(f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n" + "step 1 loss 0.5\n" * 2000)
    assert body[:64] not in found
    assert found.endswith("step 1 loss 0.5\n")
