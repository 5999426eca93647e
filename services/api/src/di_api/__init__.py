"""The DIJob contract: names, model, schema, defaults and validation, all pure.

`di_api.kube` (extra `kube`) holds the API client, the watch cache and the typed errors.
"""
