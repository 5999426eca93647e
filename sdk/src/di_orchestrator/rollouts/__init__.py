"""Inference engines of a job, which generate rollouts."""
