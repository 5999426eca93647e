"""Records of the differences between two observed states of an object. Pure functions."""
