"""The programs that unpack `spec.code` and keep its bundles. The operator and `di` carry their text
into pods, and import none of it but the rules about bundles.
"""
