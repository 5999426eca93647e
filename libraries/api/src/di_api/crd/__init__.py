"""Keeps the generated parts of the custom resource definitions up to date.

The definitions are YAML files, written by hand but for the schemas of core/v1 types, which are
taken from an API server's own OpenAPI document. Nothing here runs in a service.
"""
