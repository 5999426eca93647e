"""Generator of the derived parts of the custom resource definitions.

The definitions are YAML files, written by hand except for the schemas of core/v1 types, which come
from an API server's OpenAPI document. No service runs this code.
"""
