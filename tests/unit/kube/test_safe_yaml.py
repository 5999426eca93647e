"""YAML of users is measured before its aliases are followed, by all that reads it."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from di_cli.access.kubeconfig import read_access
from di_cli.actions.manifest import documents_of
from di_cli.edits.manifests import ManifestError
from di_kube import safe_yaml
from di_kube.config import ConfigError, load_config
from di_kube.safe_yaml import MOST_BYTES, BadYaml, load_documents
from di_local.manifest import BadManifest, read_manifest

LEVELS = 20
BOMB = "\n".join(
    [
        "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]",
        *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, LEVELS)),
    ]
)
MERGES = "\n".join(
    [
        "a0: &a0 {k: lol}",
        *(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, LEVELS)),
    ]
)
LONG = f"a: &a {'x' * 10_000}\nb: [{', '.join(['*a'] * 2000)}]"
CYCLE = "a: &a [*a]"
DEEP = "[" * 5000
BRACKETS = "a: " + "[" * 100_000
DASHES = "- " * 100_000
BOMBS = pytest.mark.parametrize(
    "text",
    [BOMB, MERGES, LONG, CYCLE, DEEP, BRACKETS, DASHES],
    ids=["lists", "merges", "text", "cycle", "depth", "brackets", "dashes"],
)


@BOMBS
def test_what_a_text_stands_for_is_bounded_before_it_is_built(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(*_: object) -> None:
        raise AssertionError("it is built")

    monkeypatch.setattr(safe_yaml._Loader, "construct_document", build)
    tracemalloc.start()
    try:
        with pytest.raises(BadYaml):
            load_documents(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST_BYTES


def test_a_bomb_is_measured_once_for_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    measured, of = [0], safe_yaml._Measure.of

    def counting(self: safe_yaml._Measure, node: yaml.Node) -> int:
        measured[0] += 1
        return of(self, node)

    monkeypatch.setattr(safe_yaml._Measure, "of", counting)
    with pytest.raises(BadYaml, match=r"its aliases stand for more than .* \(line \d+\)"):
        load_documents(BOMB)
    assert measured[0] <= LEVELS * 12


@BOMBS
def test_commands_refuse_a_bomb_with_the_file(text: str, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    with pytest.raises(ManifestError, match=str(file)):
        documents_of(str(file))
    with pytest.raises(BadManifest, match=str(file)):
        read_manifest(file)
    with pytest.raises(ConfigError, match=str(file)):
        read_access(file=file)
    with pytest.raises(ConfigError, match=str(file)):
        load_config(str(file))


def test_aliases_of_honest_size_are_followed() -> None:
    (found,) = load_documents("x: &x {a: [1, 2]}\ny: *x\nz: {<<: *x, b: 3}")
    assert found["y"] == {"a": [1, 2]}
    assert found["z"] == {"a": [1, 2], "b": 3}


def test_a_text_that_is_too_large_is_not_parsed() -> None:
    with pytest.raises(BadYaml, match="larger than"):
        load_documents("#" * (MOST_BYTES + 1))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=4), inner),
)


@given(_JSON)
def test_json_is_read_as_it_was_written(value: object) -> None:
    # In a list: what begins like no list and no map is YAML, which has other escapes.
    assert load_documents(json.dumps([value], indent=1)) == [[value]]


_ODD = st.sampled_from(
    [
        *("a: 2001-01-01", "a: 2001-13-45", "a: !!timestamp x", "2001-01-01: a"),
        *("a: .nan", "a: -.inf", "a: 1.0e+999", "[1e999]", "a: 0x_", "a: 0x" + "f" * 5000),
        *("a: 1" + ":1" * 5000, "a: 1" + ":1" * 5000 + ".5", '["\\ud800"]', "=: x", "a: ="),
        *("1: a", "~: a", "true: a", "1.5: a", ".nan: a", "? [a]\n: b", "? !!str 1\n: b"),
        *("a: !!binary aGk=", "a: !!set {x}", "!!omap [a: b]", "a: !!python/name:os.system"),
        *('a: !!int ""', 'a: !!float ""', "a: !!bool x", "a: !!null x", "a: !!str {b: c}"),
    ]
)


@given(_ODD | st.text(max_size=60) | st.binary(max_size=60))
def test_any_text_is_read_as_values_of_json_or_refused(text: str | bytes) -> None:
    with suppress(BadYaml):
        found = load_documents(text)
        sent = json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
        assert json.loads(sent) == found


def test_dates_and_keys_are_texts() -> None:
    (found,) = load_documents("a: 2001-01-01\n1: b\ntrue: &x {2001-01-02: c, 3: d}\non: {<<: *x}")
    inner = {"2001-01-02": "c", "3": "d"}
    assert found == {"a": "2001-01-01", "1": "b", "true": inner, "on": inner}


def test_long_numbers_are_refused_before_they_are_read() -> None:
    for text in ("1" + ":1" * 1_000_000, "0x" + "f" * 1_000_000):
        with pytest.raises(BadYaml, match=r"a number of \d+ characters \(line 2\)"):
            load_documents(f"a: 1\nb: {text}")


def test_an_error_has_one_line() -> None:
    with pytest.raises(BadYaml) as error:
        load_documents("a: [\nb: {")
    assert "\n" not in str(error.value)
