"""Grants: the step from a policy's answer to what each job's status shows."""
