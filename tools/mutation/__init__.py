"""Mutation testing: changes the package's code in memory, one place at a time, and runs its tests.

A mutant that no test fails for is a behaviour without a test, dead code, or an equivalent program.
"""
