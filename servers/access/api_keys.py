"""The keys that clients must show: a file of them, read again when it changes."""

from __future__ import annotations

import errno
import hashlib
import hmac
import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from calculators.kit.requests.client_identity import HIGHEST_PRIORITY, NORMAL_PRIORITY
from calculators.kit.seen_files import SeenFiles
from graphrt_base.regular_file import DescriptorsExhaustedError
from servers.access.changing_files import is_open_to_others

_log: Final = logging.getLogger(__name__)

#: Characters of a key.
MAX_KEY: Final = 512
#: Bytes of a file of keys.
MAX_BYTES: Final = 1024 * 1024

# Characters that a header carries without loss.
_KEY: Final = re.compile(rf"[!-~]{{1,{MAX_KEY}}}", re.ASCII)
_PRIORITY: Final = "priority="


class KeyFileError(Exception):
    """A file of keys cannot be used. The text names the file and the line, never a key."""


class ApiKeys:
    """A set of keys.

    Only digests of the keys are kept, so that no key can get into a log or a message.
    """

    def __init__(
        self,
        priorities: Mapping[bytes, int],
        path: Path | None = None,
        seen: SeenFiles | None = None,
    ) -> None:
        """``priorities``: of the keys, by their digests."""
        self._priorities = priorities
        self._path = path
        #: The file as it was last read.
        self._seen = seen or SeenFiles()
        #: What is wrong with the file as it is now; "" if nothing is.
        self._problem = ""

    @classmethod
    def of_file(cls, path: Path) -> Self:
        """Read a file with one key per line; empty lines and lines that begin with ``#`` are none.

        ``priority=N`` behind a key is its `ClientIdentity.priority`.

        Raises:
            KeyFileError: the file cannot be read, has no key, or has a line that is no key.
        """
        seen = SeenFiles()
        return cls(_read(path, seen), path, seen)

    @classmethod
    def of_text(cls, text: str, source: str) -> Self:
        """Read keys from a text such as the value of an environment variable.

        Raises:
            KeyFileError: as for `of_file`; ``source`` names the text in it.
        """
        return cls(_keys(text, source))

    @property
    def owner(self) -> str:
        """See `servers.access.changing_files.Followed`."""
        return f"the API keys in {self._path}"

    @property
    def is_open_to_others(self) -> bool:
        """Return whether every user of this machine may read the file of keys."""
        return self._path is not None and is_open_to_others(self._path)

    def __len__(self) -> int:
        return len(self._priorities)

    def accepts(self, shown: str) -> bool:
        """Return whether ``shown`` is one of the keys. The time taken does not depend on it."""
        return self.priority_of(shown) > 0

    def priority_of(self, shown: str) -> int:
        """Return the priority of a key, or 0 for what is none; in a time that says nothing."""
        digest = digest_of(shown)
        found = 0
        for known, priority in self._priorities.items():
            found += priority * hmac.compare_digest(known, digest)
        return found

    def read_again(self) -> None:
        """See `servers.access.changing_files.Followed`."""
        if self._path is None:
            return
        problem, seen = "", SeenFiles()
        try:
            if not self._seen.have_changed():
                return
            self._priorities = _read(self._path, seen)
        except DescriptorsExhaustedError as error:
            problem = f"{self._path}: {error}"  # nothing was seen: the next look reads
        except KeyFileError as error:
            # A file that is being written, or was deleted by mistake, neither opens the server nor
            # locks its clients out.
            problem, self._seen = str(error), seen
        else:
            self._seen = seen
            _log.info("%s: read again: %d keys", self._path, len(self))
        if problem and problem != self._problem:
            _log.error("%s; the keys that were read before stay", problem)
        self._problem = problem


def _read(path: Path, seen: SeenFiles) -> dict[bytes, int]:
    try:
        data = seen.read(path, MAX_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise KeyFileError(
                f"{path}: more than {MAX_BYTES} bytes, too large for a file of keys"
            ) from None
        reason = (error.strerror or "cannot be read").lower()
        raise KeyFileError(f"{path}: {reason}") from None
    try:
        return _keys(data.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError:
        raise KeyFileError(f"{path}: this is no text, so it has no keys") from None


def _keys(text: str, source: str) -> dict[bytes, int]:
    """Return the priorities of the keys in a text, by their digests."""
    keys: dict[bytes, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, *settings = line.split()
        if _KEY.fullmatch(key) is None or any(not each.startswith(_PRIORITY) for each in settings):
            raise KeyFileError(
                f"{source}: line {number} is no key: a key has 1 to {MAX_KEY} letters, digits and "
                f"signs of ASCII, and no space; only {_PRIORITY}N may follow it"
            )
        keys[digest_of(key)] = _priority(settings, f"{source}: line {number}")
    if not keys:
        raise KeyFileError(f"{source}: there is no key in it: write one per line")
    return keys


def _priority(settings: Sequence[str], where: str) -> int:
    if not settings:
        return NORMAL_PRIORITY
    value = settings[-1].removeprefix(_PRIORITY)
    is_number = value.isascii() and value.isdecimal() and len(value) <= len(str(HIGHEST_PRIORITY))
    if len(settings) > 1 or not is_number or not 1 <= int(value) <= HIGHEST_PRIORITY:
        raise KeyFileError(
            f"{where}: {_PRIORITY} behind a key takes one number from 1 to {HIGHEST_PRIORITY}; "
            f"keys without it have {NORMAL_PRIORITY}"
        )
    return int(value)


def digest_of(key: str) -> bytes:
    """Return the SHA-256 digest of a key, which stands for it in memory and in names."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
