"""Runs a DIJob as processes on this machine: the unmodified operator and server, with an in-memory
API and a kubelet whose containers are processes.
"""
