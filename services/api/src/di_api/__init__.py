"""The DIJob contract: names, schema, defaults, validation; extra kube: API client and watch cache."""
