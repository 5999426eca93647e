"""The operator's work on jobs: throughput, latency, memory and time at rest."""
