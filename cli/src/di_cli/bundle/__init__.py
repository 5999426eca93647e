"""What goes into an archive for support, and in which form: pure."""
