"""Quantities beside an independent reading of Kubernetes' grammar.

The reference is written after the documentation of `resource.Quantity`, with fractions and no
regular expression:

    <quantity>        ::= <signedNumber><suffix>
    <signedNumber>    ::= <number> | +<number> | -<number>
    <number>          ::= <digits> | <digits>.<digits> | <digits>. | .<digits>
    <suffix>          ::= <binarySI> | <decimalExponent> | <decimalSI>
    <decimalExponent> ::= "e" <signedNumber> | "E" <signedNumber>

and after what a real API server takes beyond it (`tests/unit/api/quantities.py`): spaces around,
and numbers without digits, which are zero.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Final

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

_DIGITS: Final = frozenset("0123456789")
_POWERS: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_SCALES: Final = {
    **{suffix: Fraction(10) ** power for suffix, power in _POWERS.items()},
    **{f"{letter}i": Fraction(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
}
# 28 significant digits: twice rounded at most.
_CLOSE: Final = Fraction(1, 10**26)


def quantity(data: bytes) -> None:
    """A text is taken, refused and valued as the reference does, by all that read quantities."""
    text = data.decode("utf-8", "surrogateescape")
    expected = reference(text) if len(text) <= LONGEST else None
    try:
        found: Decimal | None = parse_quantity(text)
    except QuantityRangeError:
        assert expected is not None
        assert abs(expected) > int(LARGEST) - 1
        assert read_quantity(text) in (0, LARGEST)
        return
    except ValueError:
        assert expected is None, f"refused, but it is {expected}"
        assert fault_of_amount(text) is not None
        return
    assert found is not None
    assert expected is not None, f"taken as {found}"
    value = Fraction(found)
    assert abs(value - expected) <= abs(expected) * _CLOSE or abs(value) == Fraction(1, 10**9)
    fault = fault_of_amount(text)
    assert (fault is None) == (re.fullmatch(AMOUNT_PATTERN.removesuffix("$"), text) is not None)
    assert read_quantity(text) == max(found, Decimal(0))
    _writes(found)


def _writes(value: Decimal) -> None:
    """What is written is read as the value, rounded up to a thousandth."""
    again = parse_quantity(format_quantity(value))
    assert 0 <= Fraction(again) - Fraction(value) < Fraction(1, 1000)


def reference(text: str) -> Fraction | None:
    """The value of a text, None if it is no quantity; exponents of at most two digits."""
    rest = text.strip(" ")
    if not rest:
        return None
    sign = -1 if rest[0] == "-" else 1
    rest = rest[1:] if rest[0] in "+-" else rest
    whole, rest = _digits(rest)
    fraction = ""
    if rest.startswith("."):
        fraction, rest = _digits(rest[1:])
    scale = _scale(rest)
    if scale is None:
        return None
    return sign * Fraction(int(whole + fraction or "0"), 10 ** len(fraction)) * scale


def _digits(text: str) -> tuple[str, str]:
    end = next((at for at, letter in enumerate(text) if letter not in _DIGITS), len(text))
    return text[:end], text[end:]


def _scale(suffix: str) -> Fraction | None:
    if suffix in _SCALES:
        return _SCALES[suffix]
    if suffix[0] not in "eE":
        return None
    exponent = suffix[1:]
    sign = -1 if exponent.startswith("-") else 1
    digits, rest = _digits(exponent[1:] if exponent[:1] in ("+", "-") else exponent)
    if rest or not 0 < len(digits) <= 2:
        return None
    return Fraction(10) ** (sign * int(digits))
