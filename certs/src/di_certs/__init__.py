"""Certificate authority and serving certificates, created at run time."""
