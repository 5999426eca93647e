"""What is read of the objects that requests are about; nothing here asks anybody."""
