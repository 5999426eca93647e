"""Settings of the property tests, and what is kept of tests that fail."""

import gc
import os

from hypothesis import HealthCheck, settings

# A loaded machine is no failure: time is judged by the tests that are about time. The same code
# gets the same examples, so a red run is a fault of the change; `make test-all` looks for new ones.
settings.register_profile(
    "di",
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)
settings.register_profile("brief", settings.get_profile("di"), max_examples=10)
settings.register_profile(
    "thorough", settings.get_profile("di"), max_examples=200, derandomize=False
)
# `make check` and `make test-all` set it (tools/lanes/table.py).
settings.load_profile(os.environ.get("DI_HYPOTHESIS_PROFILE", "di"))


def pytest_collection_finish() -> None:
    """Exclude what exists before the first test from the cyclic collector: each full collection
    would look through the modules and all tests.
    """
    gc.collect()
    gc.freeze()


pytest_plugins = ["tests.failures.plugin"]
