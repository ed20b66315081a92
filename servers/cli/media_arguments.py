"""Arguments of `graphrt serve` that say from where requests may have images fetched.

Imports nothing that takes time, as `servers.cli.arguments`.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Final

from servers.cli import argument_types
from servers.cli.messages import CommandFailed

_HOST: Final = re.compile(r"[\w.:%-]+")
_EVERY: Final = "all"


def add_media_arguments(command: argparse.ArgumentParser) -> None:
    """Hosts and a directory; without them images come in the request itself."""
    media = command.add_argument_group("images that requests name")
    media.add_argument(
        "--allowed_media_domains",
        metavar="HOSTS",
        type=_domains,
        default=(),
        help="hosts, with commas, that images may be fetched from over http(s), wherever they "
        "redirect to as well; a private address has to be listed itself; `all`: every public host "
        "(ports 80 and 443); default: none",
    )
    media.add_argument(
        "--allowed_local_media_path",
        metavar="DIR",
        default="",
        help="images may be files in this directory: a path, or a file: URL; default: none",
    )


def local_media_path(args: argparse.Namespace) -> str:
    """The directory, absolute; "" for none.

    Raises:
        CommandFailed: it is not there.
    """
    given: str = args.allowed_local_media_path
    if not given:
        return ""
    path = Path(given)
    if not path.is_dir():
        raise CommandFailed(f"--allowed_local_media_path {given}: no such directory")
    return str(path.absolute())


def _domains(text: str) -> tuple[str, ...]:
    found = tuple(word.strip("[]") for word in argument_types.words(text))
    for word in found:
        if _HOST.fullmatch(word) is None:
            raise argparse.ArgumentTypeError(f"a host is a name without http:// or path: {word!r}")
        if _is_with_port(word):
            raise argparse.ArgumentTypeError(f"a host is given without its port: {word!r}")
    if _EVERY in found and len(found) > 1:
        raise argparse.ArgumentTypeError("`all` stands alone, or leave it out")
    return found


def _is_with_port(word: str) -> bool:
    return word.count(":") == 1
