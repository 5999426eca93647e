"""Common parts of the services: settings, logs, metrics, traces and the HTTP front."""
