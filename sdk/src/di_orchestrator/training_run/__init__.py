"""A training: its reports, checkpoints, timings and scaling."""
