"""Kubernetes quantities: `500m`, `1.5Gi`, `2`, `1e3`.

The grammar is the API server's for the quantities of a pod, with two bounds: LONGEST characters,
and two digits of an exponent (ten digits keep an API server busy for minutes). It is otherwise as
lenient, surrounding spaces and missing digits included. The CRD has it as a pattern, and a running
job with a quantity that the API server accepted must stay scalable. Values are decimals in the base
unit (cores, bytes, pieces) with 28 significant digits, so that sums do not drift.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final

_BINARY: Final = {f"{letter}i": Decimal(1024**power) for power, letter in enumerate("KMGTPE", 1)}
_DECIMAL: Final = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
}
LONGEST: Final = 64
"""Maximum length in characters; longer texts are not real sizes, and the bound keeps arithmetic on
input cheap.
"""
LARGEST: Final = Decimal(2**63 - 1)
_SMALLEST: Final = Decimal("1e-9")

# Any part can be missing, but not all of them: "m", "." and "+" are zero.
_NUMBER: Final = "([+0-9][0-9]*[.]?|[.])[0-9]*"
_SUFFIX: Final = "([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})"
AMOUNT_PATTERN: Final = f"^ *(({_NUMBER})?{_SUFFIX}|{_NUMBER}) *$"
"""Pattern of non-negative quantities of at most LONGEST characters, of any value. For JSON schemas
and regular expressions of Go; Python's `$` would accept a newline.
"""

# Quantities that the API server returns in pods and nodes: of any length and sign, with any
# exponent.
_QUANTITY: Final = re.compile(
    r" *(?=[^ ])(?P<sign>[+-]?)(?P<whole>[0-9]*)([.](?P<fraction>[0-9]*))?"
    r"((?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,19}))? *"
)
_LONGEST_EXPONENT: Final = 2
# Exponent from which on a number is treated as just too large, or too small.
_FAR: Final = 40


class QuantityRangeError(ValueError):
    """The quantity is larger than the API server can hold (2^63 - 1)."""


def parse_quantity(value: str | int | float) -> Decimal:
    """Return the value of a quantity in a manifest, number or text.

    Raises:
        QuantityRangeError: it is larger than the API server can hold.
        ValueError: it is not a quantity.
    """
    text = _text(value)
    found = _QUANTITY.fullmatch(text) if len(text) <= LONGEST else None
    if found is None or len((found["exponent"] or "").lstrip("+-")) > _LONGEST_EXPONENT:
        raise ValueError(f"not a quantity: {text[:LONGEST]}")
    number = _number(found)
    if abs(number) > LARGEST:
        raise QuantityRangeError(f"quantity out of range: {text}")
    return number


def read_quantity(value: str | int | float) -> Decimal:
    """Return the value of a quantity that the API server accepted, limited to the range of 0 to
    2^63 - 1.

    Raises:
        ValueError: it is not a quantity.
    """
    try:
        text = _text(value)
    except QuantityRangeError:
        return LARGEST
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise ValueError(f"not a quantity: {text[:LONGEST]}")
    return max(Decimal(0), min(_number(found), LARGEST))


def fault_of_amount(value: object) -> str | None:
    """Return the fault of a resource amount in a manifest, None if it is valid."""
    try:
        parse_quantity(value)  # type: ignore[arg-type]  # any type: others are refused
    except QuantityRangeError:
        return f"must be at most {LARGEST}"
    except ValueError:
        return "must be a quantity, such as 2, 500m or 1.5Gi"
    return "must not be negative" if str(value).lstrip(" ").startswith("-") else None


def quantity_schema() -> dict[str, Any]:
    """The schema of an amount of a resource in a CRD; it has no bound above, which a pattern cannot
    give."""
    return {
        "x-kubernetes-int-or-string": True,
        "minimum": 0,
        "maxLength": LONGEST,
        "pattern": AMOUNT_PATTERN,
    }


def _text(value: str | int | float) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"not a quantity: {type(value).__name__}")
    # Python refuses to print integers of thousands of digits.
    if isinstance(value, int) and abs(value) > LARGEST:
        raise QuantityRangeError("quantity out of range")
    return str(value)


def _number(found: re.Match[str]) -> Decimal:
    """Return the value; infinite if it is far out of range."""
    number = Decimal(f"{found['sign']}{found['whole']}.{found['fraction'] or 0}")
    if not number:
        return Decimal(0)
    suffix = found["suffix"] or ""
    scale = _BINARY.get(suffix) or _DECIMAL[suffix]
    # The API server keeps 32 bits of an exponent.
    exponent = (int(found["exponent"] or 0) + 2**31) % 2**32 - 2**31
    places = number.adjusted() + exponent
    if abs(places) > _FAR:
        return (Decimal("Infinity") if places > 0 else _SMALLEST).copy_sign(number)
    return number.scaleb(exponent) * scale


def format_quantity(value: Decimal) -> str:
    """Return the shortest exact text: whole Gi, Mi or Ki if it is one, else plain or milli.

    Anything finer than a thousandth is rounded up, as the API server does.
    """
    if value == value.to_integral_value():
        whole = int(value)
        for suffix in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
            unit = int(_BINARY[suffix])
            if whole and whole % unit == 0:
                return f"{whole // unit}{suffix}"
        return str(whole)
    milli = (value * 1000).to_integral_value(rounding="ROUND_CEILING")
    return format_quantity(milli / 1000) if milli % 1000 == 0 else f"{milli}m"
