"""Errors as people read them."""

from __future__ import annotations


def describe(error: Exception) -> str:
    """An error in one line, by kind and text: `KeyError: 'name'`."""
    return f"{type(error).__name__}: {error}"


def reason_of(error: Exception) -> str:
    """The text of an error, its kind if it has none (as some of aiohttp's)."""
    return str(error) or type(error).__name__
