"""Quantities read as the API server reads them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api.quantity import format_quantity, parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500m", "0.5"),
        ("1.5Gi", str(3 * 2**29)),
        (2, "2"),
        (0.1, "0.1"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("1E", "1e18"),
        ("1Ei", str(2**60)),
        (".5", "0.5"),
        ("5.", "5"),
        ("-3k", "-3000"),
        ("+100n", "1e-7"),
        ("7u", "7e-6"),
    ],
)
def test_read(text: str | int | float, value: str) -> None:
    assert parse_quantity(text) == Decimal(value)


NO_QUANTITIES = {
    "nothing": "",
    "a suffix alone": "m",
    "a space": "1 Gi",
    "a suffix in the wrong case": "1gi",
    "a kilo in capitals": "1K",
    "two signs": "--1",
    "two points": "1.2.3",
    "an exponent without digits": "1e",
    "a hexadecimal number": "0x10",
    "a newline": "1\n",
    "a digit of another script": "\u0661",
    "very many digits": "9" * 50_000,
    "an exponent out of range": "1e99",
    "a number too long to print": 10**5000,
    "not a number": float("nan"),
    "infinity": float("inf"),
    "true": True,
    "null": None,
    "a list": [],
}


@pytest.mark.parametrize("text", NO_QUANTITIES.values(), ids=NO_QUANTITIES)
def test_refused(text: Any) -> None:
    with pytest.raises(ValueError, match="quantity"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [("0", "0"), ("1.5", "1500m"), ("1000", "1000"), ("1024", "1Ki"), ("0.0001", "1m"),
     ("0.9999", "1"), (str(3 * 2**29), "1536Mi"), ("-0.5", "-500m")],
)  # fmt: skip
def test_written(value: str, text: str) -> None:
    assert format_quantity(Decimal(value)) == text


@given(st.integers(-(2**62), 2**62))
def test_thousandths_survive_writing_and_reading(milli: int) -> None:
    value = Decimal(milli) / 1000
    assert parse_quantity(format_quantity(value)) == value
