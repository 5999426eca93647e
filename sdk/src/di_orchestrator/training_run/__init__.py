"""A training: its reports, checkpoints, timings and changes of scale."""
