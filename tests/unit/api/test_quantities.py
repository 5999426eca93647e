"""Quantities read as the API server reads them."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api.quantity import (
    AMOUNT_PATTERN,
    LARGEST,
    LONGEST,
    QuantityRangeError,
    fault_of_amount,
    format_quantity,
    parse_quantity,
    read_quantity,
)
from tests.unit.api.quantities import REFUSED, TAKEN, TOO_LARGE


@pytest.mark.parametrize(
    ("text", "value"), [*TAKEN.items(), (2, "2"), (0.1, "0.1"), ("-3k", -3000)]
)
def test_a_quantity_is_read(text: str | int | float, value: str) -> None:
    assert parse_quantity(text) == Decimal(value)


NO_QUANTITIES: dict[str, Any] = {
    **{what: text for what, text in REFUSED.items() if not text.startswith("-1")},
    "very many digits": "9" * 50_000,
    "an exponent out of range": "1e99",
    # An API server that is asked for a pod of it does not answer for minutes.
    "an exponent that takes its time": "1e2147483648",
    "a number too long to print": 10**5000,
    "not a number": float("nan"),
    "infinity": float("inf"),
    "true": True,
    "null": None,
    "a list": [],
}


@pytest.mark.parametrize("text", NO_QUANTITIES.values(), ids=NO_QUANTITIES)
def test_another_text_is_no_quantity(text: Any) -> None:
    with pytest.raises(ValueError, match="quantity"):
        parse_quantity(text)


@pytest.mark.parametrize("text", [*TOO_LARGE, 2**63])
def test_too_large_quantities_are_told_from_other_texts(text: str | int) -> None:
    with pytest.raises(QuantityRangeError):
        parse_quantity(text)
    assert fault_of_amount(text) == "must be at most 9223372036854775807"
    assert read_quantity(text) == LARGEST


# As the API server serves them in pods: taken once, whatever their length.
SERVED = {
    "9" * 200: str(2**63 - 1),
    "0" * 100 + "1": "1",
    "1e400": str(2**63 - 1),
    "1e-400": "1e-9",
    "1e0000000000003": "1000",
    # It keeps 32 bits of the exponent, which are 3.
    "1e4294967299": "1000",
    "0e99999": "0",
    "-1": "0",
    "-9223372036854775809": "0",
}


@pytest.mark.parametrize(("text", "value"), SERVED.items(), ids=[t[:16] for t in SERVED])
def test_a_quantity_of_the_api_server_is_read_within_its_range(text: str, value: str) -> None:
    assert read_quantity(text) == Decimal(value)


@given(st.text(alphabet="0129.+-eEinumkKMGTP \n", max_size=12) | st.text(max_size=3))
def test_the_pattern_of_the_crd_and_the_parser_agree(text: str) -> None:
    # As Go understands it: the end of a text is not before its last newline.
    matches = re.fullmatch(AMOUNT_PATTERN.removesuffix("$"), text) is not None
    fault = fault_of_amount(text)
    assert matches == (fault is None or fault.startswith("must be at most"))
    if fault is None:
        assert read_quantity(text) == parse_quantity(text)


@pytest.mark.parametrize(("digits", "is_taken"), [(LONGEST, True), (LONGEST + 1, False)])
def test_the_length_of_a_quantity_is_bounded(digits: int, is_taken: bool) -> None:
    assert (fault_of_amount("0" * digits) is None) == is_taken


@pytest.mark.parametrize("text", [-1, "-1", " -0", "-"])
def test_an_amount_is_never_negative(text: str | int) -> None:
    assert fault_of_amount(text) == "must not be negative"


@pytest.mark.parametrize(
    ("value", "text"),
    [("0", "0"), ("1.5", "1500m"), ("1000", "1000"), ("1024", "1Ki"), ("0.0001", "1m"),
     ("0.9999", "1"), (str(3 * 2**29), "1536Mi"), ("-0.5", "-500m")],
)  # fmt: skip
def test_a_quantity_is_written(value: str, text: str) -> None:
    assert format_quantity(Decimal(value)) == text


@given(st.integers(-(2**62), 2**62))
def test_thousandths_survive_writing_and_reading(milli: int) -> None:
    value = Decimal(milli) / 1000
    assert parse_quantity(format_quantity(value)) == value
