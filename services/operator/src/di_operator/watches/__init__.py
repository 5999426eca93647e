"""Collections that the operator follows where it is allowed to."""
