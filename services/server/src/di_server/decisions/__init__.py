"""What the server decides, as pure functions: no request, client, clock or log in here."""
