"""Errors and the reading of files, shared by the runtime and by processes without it.

Imports the standard library only.
"""
