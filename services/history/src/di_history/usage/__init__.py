"""GPU-hours that pods held: their states, their useful share and their sums, as pure functions."""
