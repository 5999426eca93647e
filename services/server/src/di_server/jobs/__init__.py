"""The operations on jobs with tasks: list addresses, scale, report profilings."""
