"""What the pages show, decided without I/O: objects of the cluster in, texts and numbers out."""
