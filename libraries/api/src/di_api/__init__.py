"""The DIJob contract: names, model, schema, defaults and validation, all pure."""
