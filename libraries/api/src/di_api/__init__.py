"""The DIJob contract: names, model, schema, defaults and validation. All functions are pure."""
