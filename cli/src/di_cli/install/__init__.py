"""`di install`: the source, this machine's programs, and the commands to install the chart."""
