"""Settings of the property tests."""

from hypothesis import HealthCheck, settings

# A loaded machine is no failure: time is judged by the tests that are about time.
settings.register_profile(
    "di", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("di")
