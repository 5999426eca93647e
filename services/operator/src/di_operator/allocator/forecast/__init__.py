"""Forecasts of the allocator: expected starts, and the result for a hypothetical job."""
