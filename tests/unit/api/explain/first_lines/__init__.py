"""Recorded states of jobs, and the words that the first line of `di why` has to have for each."""
