"""Tasks and threads of the process: work queue, supervision, health, shutdown."""
