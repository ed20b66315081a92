"""What processes without the runtime share with it: errors and the reading of files.

Imports the standard library only.
"""
