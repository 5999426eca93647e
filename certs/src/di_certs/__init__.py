"""Certificate authority and serving certificates, made at run time."""
