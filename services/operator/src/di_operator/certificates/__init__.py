"""The serving certificates, and the CA bundles of their clients."""
