"""`MediaRules`: the sources of images that requests may use. None by default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: As the only entry of ``--allowed_media_domains``: every host.
EVERY_HOST: Final = "all"


@dataclass(frozen=True, slots=True)
class MediaRules:
    """The values of the server's flags of the same names.

    Attributes:
        allowed_media_domains: hosts, without ports; or `EVERY_HOST` alone.
        allowed_local_media_path: a directory, absolute; "" is none.
    """

    allowed_media_domains: tuple[str, ...] = ()
    allowed_local_media_path: str = ""

    @property
    def allows_every_host(self) -> bool:
        """True if the list is `EVERY_HOST` alone."""
        return self.allowed_media_domains == (EVERY_HOST,)

    def allows_host(self, host: str) -> bool:
        """True if the list allows a host. Hosts are compared as a whole, ignoring case."""
        return self.allows_every_host or self.names(host)

    def names(self, host: str) -> bool:
        """True if the list has exactly this host or address."""
        wanted = host.casefold().removesuffix(".")
        return any(wanted == each.casefold() for each in self.allowed_media_domains)


NO_MEDIA: Final = MediaRules()
