"""HTTP: reading requests and writing responses. Except for the application, only this package uses
Flask.
"""
