"""The program that unpacks `spec.code`; the operator carries its text into pods, and imports none
of it.
"""
