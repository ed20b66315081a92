"""The keys that clients must show: a file of them, read again when it changes."""

from __future__ import annotations

import errno
import hashlib
import hmac
import logging
import re
from pathlib import Path
from typing import Final, Self

from calculators.seen_files import SeenFiles
from graph_runtime.regular_file import DescriptorsExhaustedError
from servers.access.changing_files import is_open_to_others

_log: Final = logging.getLogger(__name__)

#: Characters of a key.
MAX_KEY: Final = 512
#: Bytes of a file of keys.
MAX_BYTES: Final = 1024 * 1024

# Characters that a header carries without loss.
_KEY: Final = re.compile(rf"[!-~]{{1,{MAX_KEY}}}", re.ASCII)


class KeyFileError(Exception):
    """A file of keys cannot be used. The text names the file and the line, never a key."""


class ApiKeys:
    """A set of keys.

    Only digests of the keys are kept, so that no key can get into a log or a message.
    """

    def __init__(
        self,
        digests: tuple[bytes, ...],
        path: Path | None = None,
        seen: SeenFiles | None = None,
    ) -> None:
        self._digests = digests
        self._path = path
        #: The file as it was last read.
        self._seen = seen or SeenFiles()
        #: What is wrong with the file as it is now; "" if nothing is.
        self._problem = ""

    @classmethod
    def of_file(cls, path: Path) -> Self:
        """Read a file with one key per line; empty lines and lines that begin with ``#`` are none.

        Raises:
            KeyFileError: the file cannot be read, has no key, or has a line that cannot be a key.
        """
        seen = SeenFiles()
        return cls(_read(path, seen), path, seen)

    @classmethod
    def of_text(cls, text: str, source: str) -> Self:
        """Read keys from a text such as the value of an environment variable.

        Raises:
            KeyFileError: as for `of_file`; ``source`` names the text in it.
        """
        return cls(_digests(text, source))

    @property
    def owner(self) -> str:
        """See `servers.access.changing_files.Followed`."""
        return f"the API keys in {self._path}"

    @property
    def is_open_to_others(self) -> bool:
        """Return whether every user of this machine may read the file of keys."""
        return self._path is not None and is_open_to_others(self._path)

    def __len__(self) -> int:
        return len(self._digests)

    def accepts(self, shown: str) -> bool:
        """Return whether ``shown`` is one of the keys. The time taken does not depend on it."""
        digest = digest_of(shown)
        found = False
        for known in self._digests:
            found |= hmac.compare_digest(known, digest)
        return found

    def read_again(self) -> None:
        """See `servers.access.changing_files.Followed`."""
        if self._path is None:
            return
        problem, seen = "", SeenFiles()
        try:
            if not self._seen.have_changed():
                return
            self._digests = _read(self._path, seen)
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


def _read(path: Path, seen: SeenFiles) -> tuple[bytes, ...]:
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
        return _digests(data.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError:
        raise KeyFileError(f"{path}: this is no text, so it has no keys") from None


def _digests(text: str, source: str) -> tuple[bytes, ...]:
    digests: list[bytes] = []
    for number, line in enumerate(text.splitlines(), 1):
        key = line.strip()
        if not key or key.startswith("#"):
            continue
        if _KEY.fullmatch(key) is None:
            raise KeyFileError(
                f"{source}: line {number} is no key: a key has 1 to {MAX_KEY} letters, digits and "
                f"signs of ASCII, and no space"
            )
        digests.append(digest_of(key))
    if not digests:
        raise KeyFileError(f"{source}: there is no key in it: write one per line")
    return tuple(digests)


def digest_of(key: str) -> bytes:
    """Return the SHA-256 digest of a key, which stands for it in memory and in names."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
