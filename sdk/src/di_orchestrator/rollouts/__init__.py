"""Inference engines of a job, which make rollouts."""
