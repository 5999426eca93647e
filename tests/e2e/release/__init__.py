"""The chart: installed, upgraded, secured and taken away."""
