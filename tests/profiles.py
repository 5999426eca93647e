"""How much a test tries: little in `make check`, more in `make test`, most in `make test-all`."""

from __future__ import annotations

from hypothesis import settings


def by_profile(*, brief: int, usual: int, thorough: int) -> int:
    """Return the number for the profile of this run (see `tests/conftest.py`)."""
    match settings.get_current_profile_name():
        case "brief":
            return brief
        case "thorough":
            return thorough
        case _:
            return usual
