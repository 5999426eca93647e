"""Programs, root file systems and images: built once, and kept by what they are built of."""
