"""Jobs from their creation to their end."""
