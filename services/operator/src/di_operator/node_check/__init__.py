"""The default node check: a program that runs in a pod."""
