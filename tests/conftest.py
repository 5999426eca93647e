"""Settings of the property tests, and what is kept of tests that fail."""

from hypothesis import HealthCheck, settings

# A loaded machine is no failure: time is judged by the tests that are about time.
settings.register_profile(
    "di", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("di")

pytest_plugins = ["tests.failures.plugin"]
