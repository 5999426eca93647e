"""Decide which jobs are admitted: in order or by shares, with backfill."""
