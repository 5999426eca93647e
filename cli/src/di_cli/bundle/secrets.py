"""Detection of secrets in a text, by their form, or by the name before them.

Names and forms are those that are common for passwords, tokens and keys. A secret of another form
is known only if it also appears somewhere under such a name. Every pattern takes linear time,
because a log can be one line of megabytes, written to be expensive.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from di_cli.bundle.known import REDACTED, SHORTEST, KnownSecrets

_NONE_KNOWN: Final = KnownSecrets()
_SHORTEST_NUMBER: Final = 8
_LONGEST_KEY: Final = 8192
"""Maximum length of a private key."""
LONGEST_LINE: Final = 1 << 16
"""Maximum length of a line in characters; the rest is left out."""
# Programs that generate texts often log numbers of tokens, in the plural.
_WORDS: Final = (
    r"passw(?:or)?d|passphrase|pwd|secret|token(?!s|iz)|credential|api[-_.]?key|access[-_.]?key|"
    r"private[-_.]?key|signing[-_.]?key|encryption[-_.]?key|authorization|cookie|"
    r"connection[-_.]?string|dsn\b|signature|dockercfg|dockerconfig|htpasswd"
)
_ENDS: Final = r"pass|key|auth|creds?|sig"
_HINTS: Final = (
    *(
        "pass",
        "pwd",
        "secret",
        "token",
        "cred",
        "key",
        "auth",
        "cookie",
        "connection",
        "dsn",
        "sig",
    ),
    *("dockerc", "bearer", "basic"),
)
"""A line without any of these contains no name of a secret; this check is cheap."""
_NAME: Final = re.compile(rf"{_WORDS}|(?:^|[-_.])(?:{_ENDS})$", re.IGNORECASE)
_HARMLESS: Final = frozenset(
    {
        *("secretname", "secretkeyref", "secretref", "secret", "key", "topologykey"),
        *("serviceaccounttoken", "automountserviceaccounttoken"),
    }
)
"""Field names of Kubernetes that refer to a Secret, or a key of a ConfigMap, and not to its
content.
"""
_VALUE: Final = (
    r"""(?P<value>\\"[^"\\\n]*\\"|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|(?!\\["'])[^\s"']+|["'][^\s"']+)"""
)
_PAIR: Final = re.compile(
    rf"""(?P<before>(?:(?:{_WORDS})[\w.-]{{0,40}}|(?<=[-_.?&])(?:{_ENDS}))"""
    rf"""\\?["']?\s{{0,4}}[=:]\s{{0,4}}(?:(?:bearer|basic)\s{{1,4}})?){_VALUE}""",
    re.IGNORECASE,
)
_BEARER: Final = re.compile(
    r"(?P<before>\b(?:bearer|basic)\s{1,4})(?P<value>[\w.~+/=-]{6,})", re.IGNORECASE
)
_FLAG: Final = re.compile(
    r"""(?P<before>(?<![^\s"'])--?(?P<name>[\w-]{1,60})\s{1,4})(?P<value>(?!--)\S+)"""
)
_KEY: Final = r"[A-Z ]{0,20}PRIVATE KEY-----"
_SHAPES: Final = (
    # A URL with a password, scheme://user:password@host. Without an @ the rest is consumed, because
    # it would be read again at each :// in it.
    re.compile(
        r"(?P<before>://)(?:(?P<value>[^\s\"'/:]*+:[^\s\"']*)(?=@)|[^\s\"'/:]*+:[^\s\"']*+)"
    ),
    # A private key; if its end is missing, as much as the largest has. In either case the text is
    # consumed.
    re.compile(
        rf"(?P<before>)(?P<value>-----BEGIN {_KEY}"
        rf"(?:[\s\S]{{0,{_LONGEST_KEY}}}?(?:-----END {_KEY}|\Z)|[\s\S]{{{_LONGEST_KEY}}}))"
    ),
    # JSON web tokens, which are searched only in words before a dot. Then those of AWS, and of
    # GitHub, GitLab, Hugging Face, OpenAI and Slack.
    re.compile(
        r"(?P<before>(?<![\w-])(?=[\w-]++\.[\w-])[\w-]*?)"
        r"(?P<value>\beyJ[\w-]{5,}+\.[\w-]++\.?+[\w-]*+)"
    ),
    re.compile(r"(?P<before>)(?P<value>\b(?:AKIA|ASIA)[A-Z0-9]{16}\b)"),
    re.compile(
        r"(?P<before>)(?P<value>\b(?:gh[pousr]_|github_pat_|glpat-|hf_|sk-|xox[abprs]-)[\w-]{16,})"
    ),
)
_NOTHING: Final = frozenset({"", REDACTED, "true", "false", "null", "None", "none", "nil"})
_QUOTES: Final = "\\\"'"
_AFTER: Final = re.compile(r"[,;&)}\]]")
"""Characters that can follow an unquoted value, or be part of it."""


def is_secret_name(name: str) -> bool:
    """Return whether the value with that name (of a variable, a key or a field) is secret."""
    return name.lower() not in _HARMLESS and _NAME.search(name) is not None


def is_secret_flag(word: str) -> bool:
    """Return whether the word after this flag is secret: `--token x`."""
    return word.startswith("-") and "=" not in word and _NAME.search(word) is not None


def cleaned(text: str, known: KnownSecrets = _NONE_KNOWN) -> str:
    """Return a text without its secrets, and without known ones."""
    text = known.without(text)
    for shape in _SHAPES:
        text = shape.sub(_without, text)
    return "".join(_cleaned_line(line) for line in text.splitlines(keepends=True))


def in_text(text: str) -> Iterator[str]:
    """Yield the secrets of a text."""
    for shape in _SHAPES:
        yield from (found["value"] for found in shape.finditer(text) if found["value"])
    for line in filter(_is_suspect, text.splitlines()):
        for pattern in (_PAIR, _BEARER):
            for found in pattern.finditer(line[:LONGEST_LINE]):
                value = found["value"].strip(_QUOTES)
                yield value
                yield _AFTER.split(value, maxsplit=1)[0]
        for found in _FLAG.finditer(line[:LONGEST_LINE]):
            if is_secret_flag(f"-{found['name']}"):
                value = found["value"].strip(_QUOTES)
                yield value
                yield _AFTER.split(value, maxsplit=1)[0]


def forms_of(secret: str) -> Iterator[str]:
    """Yield the forms in which a secret can appear: unchanged, a line of it, in JSON, in a URL, in
    base64.
    """
    for line in {secret, *secret.splitlines()}:
        told = line.strip()
        if told in _NOTHING or (told.isdecimal() and len(told) < _SHORTEST_NUMBER):
            continue
        for form in (
            line,
            told,
            json.dumps(told)[1:-1],
            json.dumps(told, ensure_ascii=False)[1:-1],
            repr(told)[1:-1],
            quote(told, safe=""),
            base64.b64encode(told.encode(errors="replace")).decode().rstrip("="),
        ):
            if len(form) >= SHORTEST:
                yield form
    if "://" not in secret and ":" in secret:
        # User and password of a URL.
        yield from forms_of(secret.partition(":")[2])


def _is_suspect(line: str) -> bool:
    lower = line.lower()
    return any(hint in lower for hint in _HINTS)


def _cleaned_line(line: str) -> str:
    if len(line) > LONGEST_LINE:
        line = f"{line[:LONGEST_LINE]}... (cut)\n"
    if not _is_suspect(line):
        return line
    line = _BEARER.sub(_without, _PAIR.sub(_without, line))
    return _FLAG.sub(_without_after_flag, line)


def _without(found: re.Match[str]) -> str:
    value = found["value"]
    if value is None or value.strip(_QUOTES) in _NOTHING:
        return found[0]
    quoted = next((q for q in ('\\"', '"', "'") if value.startswith(q) and value.endswith(q)), "")
    return f"{found['before']}{quoted}{REDACTED}{quoted}"


def _without_after_flag(found: re.Match[str]) -> str:
    return _without(found) if is_secret_flag(f"-{found['name']}") else found[0]
