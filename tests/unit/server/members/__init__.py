"""The board of members: what they publish, exchange and wait for."""
