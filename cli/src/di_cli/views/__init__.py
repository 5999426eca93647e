"""Views of jobs, pods and events as rows and lines, computed from objects and a time. Pure
functions.
"""
