"""The default node check: a program that runs in the pods of jobs. The operator only carries its
source text.
"""
