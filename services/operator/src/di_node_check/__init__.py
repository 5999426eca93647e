"""The default node check: a program that runs in pods of jobs; the operator carries its text."""
