"""From an empty machine to a DIJob that trains and succeeds."""
