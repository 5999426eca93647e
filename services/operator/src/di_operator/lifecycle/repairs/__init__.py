"""What is put right of objects that were edited by hand."""
