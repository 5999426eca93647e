"""Max-min fair shares of the space."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from di_history.fair_share import level_of, over_the_level

SIZES = st.dictionaries(st.text(max_size=3), st.integers(0, 10**12), max_size=12)


def test_what_fits_has_no_level() -> None:
    assert level_of([1, 2, 3], 6) is None
    assert over_the_level({}, 0) == {}


def test_a_large_namespace_has_what_small_ones_leave() -> None:
    assert over_the_level({"a": 90, "b": 10, "c": 20}, 100) == {"a": 20}
    assert over_the_level({"a": 90, "b": 60, "c": 20}, 100) == {"a": 50, "b": 20}


@given(sizes=SIZES, most=st.integers(0, 10**12))
def test_a_namespace_within_an_equal_part_loses_nothing(sizes: dict[str, int], most: int) -> None:
    over = over_the_level(sizes, most)
    left = {name: size - over.get(name, 0) for name, size in sizes.items()}
    assert sum(left.values()) <= most
    for name, size in sizes.items():
        assert left[name] == size or left[name] >= most // len(sizes)
    if over:
        # Nothing more is given up than has to be, but for what does not divide.
        assert sum(left.values()) > most - len(sizes)
