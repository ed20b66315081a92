"""The HTTP front: OpenAI's endpoints and what a server tells of itself, over aiohttp.

``front`` starts and stops it; ``handler`` turns a request into an answer; ``connection`` holds the
limits of one client; ``event_stream`` is the way of a packet to the socket. It knows the graphs as
a `servers.contract.data_plane.DataPlane` only.
"""

from servers.fronts.http.front import HttpFront, start_front
from servers.fronts.http.settings import HttpSettings

__all__ = ["HttpFront", "HttpSettings", "start_front"]
