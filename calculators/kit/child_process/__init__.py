"""Child processes of the server: typed messages over a socket pair, and supervision.

The socket pair is made before the child starts, so there is no port and no path. Messages are
msgspec structs in MessagePack, each frame with its length in front; nothing is ever unpickled.
"""
