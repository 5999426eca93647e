"""For how long what was refused is not tried again: the delay doubles with each refusal."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

FIRST_DELAY: Final = timedelta(seconds=15)
LONGEST_DELAY: Final = timedelta(seconds=600)
