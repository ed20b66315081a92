"""The HTTP front, over aiohttp: endpoints of tasks, KServe's protocol, metrics, configuration.

``front`` starts and stops it; ``handler`` answers requests; ``connection`` holds the limits of one
client; ``event_stream`` writes packets to the socket. It knows the graphs only as a
`servers.contract.data_plane.DataPlane`.
"""

from servers.fronts.http.front import HttpFront, start_front
from servers.fronts.http.settings import HttpSettings

__all__ = ["HttpFront", "HttpSettings", "start_front"]
