"""A child process that never answers."""

import sys

from calculators.kit.child_process.parent_connection import ParentConnection

connection = ParentConnection(int(sys.argv[1]))
for _ in connection.receive(wait=True):
    pass
