"""Content and format of an archive for support. Pure functions."""
