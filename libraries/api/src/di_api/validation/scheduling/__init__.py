"""Rules about the placement of pods and its combinations."""
