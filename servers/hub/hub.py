"""Requests to a hub, by the package ``huggingface_hub``.

It brings the address (``HF_ENDPOINT``), the key (``HF_TOKEN``, or the one that `hf auth login`
kept), proxies, and the offline mode (``HF_HUB_OFFLINE``). Files are read here, and not by
``hf_hub_download``: since 1.0 it begins a file again from its first byte after an interruption.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final, NoReturn

from servers.hub.errors import HubError
from servers.hub.model_reference import ModelReference
from servers.hub.wanted_files import HubFile

#: Seconds to connect, and between two pieces of an answer.
_TIMEOUT: Final = 20.0
#: Bytes of an answer at a time, for clients that need a number.
_PIECE: Final = 1 << 16
_INSTALL: Final = "pip install 'graphrt[hub]'"
#: Errors of answers that end too early, of httpx and of requests.
_BROKEN_OFF: Final = ("ReadError", "RemoteProtocolError", "ChunkedEncodingError")
_KEY_HINT: Final = (
    "is the name right? A private or gated model needs a key in HF_TOKEN whose owner may read it"
)


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a repository at one commit."""

    commit: str
    files: tuple[HubFile, ...]


class Hub:
    """A hub.

    Attributes:
        address: its URL without a path, for messages.
    """

    def __init__(self, address: str | None = None) -> None:
        """Import the package; nothing is requested yet.

        Args:
            address: None is ``HF_ENDPOINT``, and Hugging Face without that.

        Raises:
            HubError: the package is not installed.
        """
        self._library = _library()
        self.address: str = (address or self._library.constants.ENDPOINT).rstrip("/")

    def list_files(self, reference: ModelReference) -> Listing:
        """Look up the commit of a revision, and its files with their sizes and checksums.

        Raises:
            HubError: the hub does not answer, or has no such model for this key.
        """
        with self.errors(reference):
            info = self._library.HfApi(endpoint=self.address).model_info(
                reference.repository,
                revision=reference.revision,
                files_metadata=True,
                timeout=_TIMEOUT,
            )
        files = tuple(_file_of(each, reference) for each in info.siblings or ())
        if not info.sha:
            raise HubError(f"{self.address} names no commit of {reference}")
        return Listing(info.sha, files)

    @contextmanager
    def open(
        self, reference: ModelReference, commit: str, name: str, start: int
    ) -> Iterator[tuple[int, Iterator[bytes]]]:
        """Begin to read a file at a byte.

        Returns:
            Where the answer really begins (0 where the hub knows no ranges), and its pieces.
        """
        library = self._library
        url = library.hf_hub_url(reference.repository, name, revision=commit, endpoint=self.address)
        headers = {**library.utils.build_hf_headers(), "Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
        with _answer(library.utils.get_session(), url, headers) as (response, pieces):
            library.utils.hf_raise_for_status(response)
            yield start if response.status_code == 206 else 0, pieces

    def is_momentary(self, error: Exception) -> bool:
        """Return whether a retry may help: after a broken connection, or if the hub is busy."""
        response = getattr(error, "response", None)
        if response is not None:
            return response.status_code in (408, 429) or response.status_code >= 500
        return isinstance(error, (ConnectionError, TimeoutError)) or _is_transport(error)

    @contextmanager
    def errors(self, reference: ModelReference) -> Iterator[None]:
        """Turn the library's errors into `HubError`."""
        try:
            yield
        except HubError:
            raise
        except Exception as error:
            self._raise(reference, error)

    def _raise(self, reference: ModelReference, error: Exception) -> NoReturn:
        known = self._library.errors
        repository, address = reference.repository, self.address
        if isinstance(error, known.OfflineModeIsEnabled):
            raise HubError(
                f"{reference} is not here, and HF_HUB_OFFLINE forbids asking {address}",
                hint="pull it where there is a network, or unset HF_HUB_OFFLINE",
            ) from error
        if isinstance(error, known.RevisionNotFoundError):
            raise HubError(f"{repository} has no revision {reference.revision}") from error
        if isinstance(error, known.GatedRepoError):
            raise HubError(
                f"{repository} is gated: its owner must allow the access",
                hint=f"ask for it at {address}/{repository}, and set HF_TOKEN",
            ) from error
        response = getattr(error, "response", None)
        status = getattr(response, "status_code", None)
        if isinstance(error, known.RepositoryNotFoundError) or status in (401, 403, 404):
            raise HubError(f"{address} has no model {repository} for us", hint=_KEY_HINT) from error
        if status == 429:
            after = response.headers.get("Retry-After") if response is not None else None
            raise HubError(
                f"{address} refuses further requests for now (429)",
                hint=f"try again in {after} s"
                if after
                else "try again later; a key in HF_TOKEN allows more requests",
            ) from error
        if status is not None:
            raise HubError(
                f"{address} answers {status}", hint="try again later: what was read is kept"
            ) from error
        if type(error).__name__ in _BROKEN_OFF:
            raise HubError(
                f"{address} breaks off its answers", hint="try again: what was read is kept"
            ) from error
        if self.is_momentary(error):
            raise HubError(
                f"{address} does not answer ({type(error).__name__})",
                hint="is there a network? HF_ENDPOINT names another hub, HTTPS_PROXY a proxy",
            ) from error
        raise HubError(
            f"{address} gave an answer that cannot be used: {type(error).__name__}"
        ) from error


@contextmanager
def _answer(
    session: Any, url: str, headers: dict[str, str]
) -> Iterator[tuple[Any, Iterator[bytes]]]:
    """Begin an answer; yield it and its pieces.

    The session is httpx's since huggingface_hub 1.0, and requests' before, which the exporter's
    libraries may need.
    """
    if callable(session.stream):
        with session.stream("GET", url, headers=headers, timeout=_TIMEOUT) as response:
            # Without a size: pieces of one would be lost when the connection breaks within them.
            yield response, response.iter_bytes()
    else:
        with session.get(url, headers=headers, timeout=_TIMEOUT, stream=True) as response:
            yield response, response.iter_content(_PIECE)


def _library() -> ModuleType:
    try:
        import huggingface_hub
        import huggingface_hub.constants
        import huggingface_hub.errors
        import huggingface_hub.utils
    except ImportError:
        raise HubError("models of a hub need the package huggingface_hub", hint=_INSTALL) from None
    return huggingface_hub


def _is_transport(error: Exception) -> bool:
    """Return whether an error is the connection's; the HTTP client is httpx, httpx2 or requests."""
    names = {base.__name__ for base in type(error).__mro__}
    return not names.isdisjoint(("TransportError", "RequestException"))


def _file_of(sibling: Any, reference: ModelReference) -> HubFile:
    if not isinstance(sibling.size, int) or sibling.size < 0:
        raise HubError(f"the hub does not say how large {sibling.rfilename} of {reference} is")
    lfs = sibling.lfs
    return HubFile(
        sibling.rfilename,
        sibling.size,
        sha256=lfs.sha256 if lfs is not None else None,
        git_sha1=sibling.blob_id if lfs is None else None,
    )
