"""One file for each change of the tables, never edited once released.

A change only adds: tables, indexes, and columns that are nullable or have a server default. So the
previous version works with the tables of this one, while replicas are replaced one by one and after
a rollback.
"""
