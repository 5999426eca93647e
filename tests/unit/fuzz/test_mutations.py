"""What the fuzzer does to JSON."""

from __future__ import annotations

import json
from random import Random

from tools.fuzz.mutations import VALUES, changed, vocabulary

SEED = b'{"a": [1, {"b": "text"}], "c": null}'


def test_a_change_leaves_json_that_is_another_value_nearly_always() -> None:
    found = [changed(SEED, Random(seed), vocabulary([SEED])) for seed in range(300)]
    texts = {text for text in found if text}
    assert len(texts) > 200
    for text in texts:
        json.loads(text.decode("utf-8", "surrogatepass"))


def test_the_same_choices_make_the_same_change() -> None:
    assert changed(SEED, Random(7), ("a",)) == changed(SEED, Random(7), ("a",))


def test_what_is_no_json_is_left_to_others() -> None:
    assert changed(b"{", Random(1), ()) is None
    assert changed(b"[" * 100_000, Random(1), ()) is None


def test_the_words_of_seeds_are_their_keys_and_plain_values() -> None:
    assert set(vocabulary([SEED, b"no JSON"])) == {"a", 1, "b", "text", "c", None}


def test_odd_values_are_not_changed_by_changing_what_holds_them() -> None:
    before = repr(VALUES)
    text = b"[[]]"
    for seed in range(500):
        text = changed(text, Random(seed), ()) or b"[[]]"
    assert repr(VALUES) == before
