"""What tests fetch and build before the first of them runs: `python -m tools.prepare`."""
