"""Objects that an API server takes, however odd, put through every reader of every service."""

from hypothesis import HealthCheck, settings

FEW = settings(
    # Each example is whole objects through many readers; there are more every time it is run.
    max_examples=8,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
