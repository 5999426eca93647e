"""Replicas of jobs with a coordinator: what is asked, what is written, what is answered."""
