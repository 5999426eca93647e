"""Names of the jobs that REST requests are made about."""

from typing import Final

TASKS: Final = "cartpole"
"""A job of tasks."""
COORDINATED: Final = "led"
"""A job with a coordinator."""
