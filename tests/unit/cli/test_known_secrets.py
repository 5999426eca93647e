"""Secrets that are known from elsewhere, in long texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_cli.bundle.known import REDACTED, KnownSecrets
from di_cli.bundle.redact import known_secrets
from di_cli.bundle.secrets import cleaned

OTHERS = [f"other secret {number:03d}" for number in range(100)]
"""So many that they are not looked for one after the other."""

LONG = "".join(map(chr, range(0x4E00, 0x4F00)))


def log(lines: int, line: str) -> str:
    return "".join(line.format(number) for number in range(lines))


@pytest.mark.parametrize(
    "line",
    [
        "token={0:08d}x\n",
        " token={0:08d}x",
        "-----BEGIN PRIVATE KEY-----{0:08d}-----END PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\n{0:08d}\n-----END PRIVATE KEY-----\n",
        "password=aaaaa{0:08d}\n",
    ],
)
def test_the_work_for_a_log_of_secrets_grows_with_its_length(line: str) -> None:
    looks = []
    for lines in (500, 1000, 2000):
        text = log(lines, line)
        known = known_secrets([text])
        assert f"{lines - 1:08d}" not in cleaned(text, known)
        looks.append(known.looks)
    assert looks[1] <= 2.2 * looks[0]
    assert looks[2] <= 2.2 * looks[1]


def test_a_place_is_compared_with_a_bounded_number_of_secrets() -> None:
    alike = ["a" * length for length in range(5, 500)]
    known, text = KnownSecrets(alike), "a" * 1000
    assert known.without(text) == REDACTED
    assert known.looks <= 60 * len(text)


@pytest.mark.parametrize(
    ("secrets", "text", "expected"),
    [
        (["abcdefgh"], "xabcdefghy", f"x{REDACTED}y"),
        (["abcde", "cdefghij"], "xabcdefghijy", f"x{REDACTED}y"),
        (["abcde"], "abcdeabcde", REDACTED),
        (["abcde"], "abcde abcde", f"{REDACTED} {REDACTED}"),
        (["abcd"], "abcd", "abcd"),
        (["s" * 200], f"x{'s' * 200}y", f"x{REDACTED}y"),
        (["s" * 200], f"x{'s' * 100}y", f"x{'s' * 100}y"),
        ([LONG + each for each in "abcdef"], f"x{LONG}ay", f"x{REDACTED}y"),
        ([], "nothing of it", "nothing of it"),
    ],
)
def test_all_of_each_secret_is_redacted(secrets: list[str], text: str, expected: str) -> None:
    assert KnownSecrets([*secrets, *OTHERS]).without(text) == expected


@given(st.lists(st.text("ab", min_size=5, max_size=90), min_size=1), st.text("ab", max_size=200))
def test_no_secret_is_left_in_a_text(secrets: list[str], text: str) -> None:
    left = KnownSecrets([*secrets, *OTHERS]).without(text)
    assert not any(secret in left for secret in secrets)
