"""The policies that come with the operator, one file each."""
