"""The changes by commands: patches and manifests, computed from objects and arguments. Pure
functions.
"""
