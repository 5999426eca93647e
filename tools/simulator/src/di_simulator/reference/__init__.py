"""Published policies to compare with, as small as they can be."""
