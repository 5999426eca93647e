"""DISweeps: their trials are created, compared and stopped by the rules of `di_api.sweeps`."""
