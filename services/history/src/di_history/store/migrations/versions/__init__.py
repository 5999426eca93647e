"""One file for each change of the tables, never edited once released.

Each of them adds, and no more: tables, indexes, and columns that may be null or have a default of
the server. So the version before goes on with the tables of this one, while the replicas are
replaced one by one and after a rollback.
"""
