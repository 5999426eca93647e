"""What a request does: reads through storage, a pure decision, at most one write."""
