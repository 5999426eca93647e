"""Keeps the generated part of the DIJob custom resource definition up to date.

The definition is one YAML file, written by hand but for the schemas of core/v1 types, which are
taken from an API server's own OpenAPI document. Nothing here runs in a service.
"""
