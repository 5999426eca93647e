"""View models of the pages, computed without I/O: from objects of the cluster to texts and
numbers.
"""
