"""What all services share: fronts, logs, settings, metrics."""
