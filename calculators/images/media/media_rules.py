"""`MediaRules`: the sources of images that requests may use. None by default."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from calculators.kit.settings.declaration import MEDIA, option
from calculators.kit.settings.value_types import words

#: The only entry of ``--allowed_media_domains`` if every host is allowed.
EVERY_HOST: Final = "all"

_HOST: Final = re.compile(r"[\w.:%-]+")


def media_domains(text: str) -> tuple[str, ...]:
    """Names or addresses of hosts with commas between them, or `EVERY_HOST` alone."""
    found = tuple(word.strip("[]") for word in words(text))
    for word in found:
        if _HOST.fullmatch(word) is None:
            raise argparse.ArgumentTypeError(f"a host is a name without http:// or path: {word!r}")
        if word.count(":") == 1:
            raise argparse.ArgumentTypeError(f"a host is given without its port: {word!r}")
    if EVERY_HOST in found and len(found) > 1:
        raise argparse.ArgumentTypeError("`all` stands alone, or leave it out")
    return found


def _existing_directory(given: str) -> str:
    """An absolute path; "" stays.

    Raises:
        ValueError: there is no such directory.
    """
    if given and not Path(given).is_dir():
        raise ValueError("no such directory")
    return str(Path(given).absolute()) if given else ""


@dataclass(frozen=True, slots=True)
class MediaRules:
    """The values of the server's flags of the same names.

    Attributes:
        allowed_media_domains: hosts, without ports; or `EVERY_HOST` alone.
        allowed_local_media_path: a directory, absolute; "" is none.
    """

    allowed_media_domains: tuple[str, ...] = option(
        (),
        "hosts, with commas, that images and documents may be fetched from over http(s), wherever "
        "they redirect to as well; a private address has to be listed itself; `all`: every public "
        "host (ports 80 and 443); default: none",
        group=MEDIA,
        metavar="HOSTS",
        reads=media_domains,
    )
    allowed_local_media_path: str = option(
        "",
        "images may be files in this directory: a path, or a file: URL; default: none",
        group=MEDIA,
        metavar="DIR",
        resolve=_existing_directory,
    )

    @property
    def allows_every_host(self) -> bool:
        """True if the list is `EVERY_HOST` alone."""
        return self.allowed_media_domains == (EVERY_HOST,)

    def allows_host(self, host: str) -> bool:
        """Return True if the list allows a host. Hosts are compared as a whole, ignoring case."""
        return self.allows_every_host or self.names(host)

    def names(self, host: str) -> bool:
        """Return True if the list has exactly this host or address."""
        wanted = host.casefold().removesuffix(".")
        return any(wanted == each.casefold() for each in self.allowed_media_domains)


NO_MEDIA: Final = MediaRules()
