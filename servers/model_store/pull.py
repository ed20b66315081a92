"""`pull`: download a model of a hub into the directory of models.

Requests to a hub are made by the package ``huggingface_hub``, which brings the address
(``HF_ENDPOINT``), the key (``HF_TOKEN``, or the one that `hf auth login` kept), proxies, and the
offline mode (``HF_HUB_OFFLINE``). Files are read here, and not by ``hf_hub_download``: since 1.0 it
begins a file again from its first byte after an interruption.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NoReturn, Protocol

from servers.model_store.directory import ModelOrigin, ModelStore
from servers.model_store.model_reference import ModelError, ModelReference
from servers.model_store.progress import DownloadProgress
from servers.model_store.wanted_files import HubFile, ModelForm, WantedFiles, wanted_files

#: Seconds to connect, and between two pieces of an answer.
_TIMEOUT: Final = 20.0
#: Bytes of an answer at a time, for clients that need a number.
_PIECE: Final = 1 << 16
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
        """
        self._library = _library()
        self.address: str = (address or self._library.constants.ENDPOINT).rstrip("/")

    def list_files(self, reference: ModelReference) -> Listing:
        """Look up the commit of a revision, and its files with their sizes and checksums.

        Raises:
            ModelError: the hub does not answer, or has no such model for this key.
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
            raise ModelError(f"{self.address} names no commit of {reference}")
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
        """Turn the library's errors into `ModelError`."""
        try:
            yield
        except ModelError:
            raise
        except Exception as error:
            self._raise(reference, error)

    def _raise(self, reference: ModelReference, error: Exception) -> NoReturn:
        known = self._library.errors
        repository, address = reference.repository, self.address
        if isinstance(error, known.OfflineModeIsEnabled):
            raise ModelError(
                f"{reference} is not here, and HF_HUB_OFFLINE forbids asking {address}",
                hint="pull it where there is a network, or unset HF_HUB_OFFLINE",
            ) from error
        if isinstance(error, known.RevisionNotFoundError):
            raise ModelError(f"{repository} has no revision {reference.revision}") from error
        if isinstance(error, known.GatedRepoError):
            raise ModelError(
                f"{repository} is gated: its owner must allow the access",
                hint=f"ask for it at {address}/{repository}, and set HF_TOKEN",
            ) from error
        response = getattr(error, "response", None)
        status = getattr(response, "status_code", None)
        if isinstance(error, known.RepositoryNotFoundError) or status in (401, 403, 404):
            raise ModelError(
                f"{address} has no model {repository} for us", hint=_KEY_HINT
            ) from error
        if status == 429:
            after = response.headers.get("Retry-After") if response is not None else None
            raise ModelError(
                f"{address} refuses further requests for now (429)",
                hint=f"try again in {after} s"
                if after
                else "try again later; a key in HF_TOKEN allows more requests",
            ) from error
        if status is not None:
            raise ModelError(
                f"{address} answers {status}", hint="try again later: what was read is kept"
            ) from error
        if type(error).__name__ in _BROKEN_OFF:
            raise ModelError(
                f"{address} breaks off its answers", hint="try again: what was read is kept"
            ) from error
        if self.is_momentary(error):
            raise ModelError(
                f"{address} does not answer ({type(error).__name__})",
                hint="is there a network? HF_ENDPOINT names another hub, HTTPS_PROXY a proxy",
            ) from error
        raise ModelError(
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
    # With the first request to a hub: it is large.
    import huggingface_hub
    import huggingface_hub.constants
    import huggingface_hub.errors
    import huggingface_hub.utils

    return huggingface_hub


def _is_transport(error: Exception) -> bool:
    """Return whether an error is the connection's; the HTTP client is httpx, httpx2 or requests."""
    names = {base.__name__ for base in type(error).__mro__}
    return not names.isdisjoint(("TransportError", "RequestException"))


def _file_of(sibling: Any, reference: ModelReference) -> HubFile:
    if not isinstance(sibling.size, int) or sibling.size < 0:
        raise ModelError(f"the hub does not say how large {sibling.rfilename} of {reference} is")
    lfs = sibling.lfs
    return HubFile(
        sibling.rfilename,
        sibling.size,
        sha256=lfs.sha256 if lfs is not None else None,
        git_sha1=sibling.blob_id if lfs is None else None,
    )


#: A file that is not whole yet.
PART_SUFFIX: Final = ".part"

#: Tries that bring no byte, one after the other, until the transfer ends.
_TRIES: Final = 5
#: Seconds before the second try; each further one waits twice as long, up to the longest.
FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 8.0


class Transfer:
    """Downloads files of one commit into a directory.

    A file has the suffix `PART_SUFFIX` until it has its size and checksum, and its bytes reach the
    disk in order: whatever ends the process, the next transfer continues after the last of them.
    """

    def __init__(
        self,
        hub: Hub,
        reference: ModelReference,
        commit: str,
        directory: Path,
        *,
        on_bytes: Callable[[int], None],
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """``on_bytes`` receives the number of new bytes; negative if some are discarded."""
        self._hub = hub
        self._reference = reference
        self._commit = commit
        self._directory = directory
        self._on_bytes = on_bytes
        self._pause = pause

    def read_all(self, files: Iterable[HubFile]) -> None:
        """Download files one after the other; raises the errors of `read`."""
        for file in files:
            self.read(file)

    def read(self, file: HubFile) -> None:
        """Download a file into the directory unless it is there.

        Raises:
            ModelError: the hub does not answer, or gives other bytes than its listing promises.
            OSError: the file cannot be written.
        """
        whole = self._directory / file.name
        if whole.is_file():
            return
        part = whole.with_name(whole.name + PART_SUFFIX)
        part.parent.mkdir(parents=True, exist_ok=True)
        if part.is_symlink() or (part.exists() and not part.is_file()):
            # Opening a pipe would wait for a reader.
            shutil.rmtree(part) if part.is_dir() and not part.is_symlink() else part.unlink()
        for retries_for_content in (1, 0):
            self._fill(part, file)
            if _has_checksum(part, file):
                os.replace(part, whole)
                return
            # Perhaps an earlier transfer left other bytes here: once more from the beginning.
            self._on_bytes(-part.stat().st_size)
            part.unlink()
            if not retries_for_content:
                raise ModelError(
                    f"{file.name} of {self._reference} has another checksum than the hub promises",
                    hint="try again; if it stays so, the hub or a proxy before it gives wrong data",
                )

    def _fill(self, part: Path, file: HubFile) -> None:
        """Append to a part until it has the file's size."""
        failures = 0
        # Without a buffer, so that an error of the disk belongs to the write that it concerns.
        with part.open("ab", buffering=0) as stream:
            while (start := stream.tell()) < file.size:
                failure = self._append(stream, start, file)
                if stream.tell() >= file.size:
                    return
                failures = 1 if stream.tell() > start else failures + 1
                if failures >= _TRIES:
                    raise failure
                self._pause(min(_LONGEST_PAUSE, FIRST_PAUSE * 2**failures))

    def _append(self, stream: FileIO, start: int, file: HubFile) -> ModelError:
        """Append the missing bytes as far as one response delivers them.

        Returns:
            The error if this was all.

        Raises:
            ModelError: another try would not help.
        """
        try:
            with (
                self._hub.errors(self._reference),
                self._hub.open(self._reference, self._commit, file.name, start) as (begins, pieces),
            ):
                if begins != start:
                    # A hub that knows no ranges begins at the first byte.
                    self._on_bytes(begins - start)
                    stream.truncate(begins)
                for piece in pieces:
                    self._write(stream, piece)
                    self._on_bytes(len(piece))
                    if stream.tell() > file.size:
                        raise ModelError(
                            f"{file.name} of {self._reference} is longer than the {file.size} "
                            "bytes that the hub promises"
                        )
        except ModelError as error:
            cause = error.__cause__
            if not isinstance(cause, Exception) or not self._hub.is_momentary(cause):
                raise
            return error
        return ModelError(
            f"{file.name} of {self._reference} ends after {stream.tell()} of {file.size} bytes",
            hint="try again: what was read is kept",
        )

    def _write(self, stream: FileIO, piece: bytes) -> None:
        """Write a piece whole.

        Raises:
            ModelError: the disk does not take it.
        """
        rest = memoryview(piece)
        try:
            while rest:
                rest = rest[stream.write(rest) :]
        except OSError as error:
            raise ModelError(
                f"{self._directory} cannot be written: {error.strerror or error}",
                hint="try again when there is room: what was read is kept",
            ) from error


def _has_checksum(path: Path, file: HubFile) -> bool:
    """Return whether a file matches the checksum in the hub's listing, if there is one."""
    if file.sha256 is not None:
        digest, expected = hashlib.sha256(), file.sha256
    elif file.git_sha1 is not None:
        digest, expected = hashlib.sha1(usedforsecurity=False), file.git_sha1
        digest.update(f"blob {path.stat().st_size}\0".encode())
    else:
        return True
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest() == expected


_GRAPH: Final = "graph.pbtxt"
_AS_IT_IS: Final = "a form that its graph.pbtxt names"


@dataclass(frozen=True, slots=True)
class PulledModel:
    """A downloaded model. ``is_new``: this call downloaded it."""

    directory: Path
    origin: ModelOrigin
    is_new: bool

    @property
    def path(self) -> Path:
        """The GGUF file to load, or the directory of a model in another form."""
        file = self.origin.main_file
        return self.directory if file is None else self.directory / file


class Preparation(Protocol):
    """Work on downloaded safetensors before they are published: their export.

    Attributes:
        weights: the form of the weights afterwards, in words.
        is_asked: a model that is here with other weights does not do.
    """

    @property
    def weights(self) -> str: ...

    @property
    def is_asked(self) -> bool: ...

    def check(self, size: int) -> int:
        """Check, before the download, that the work can be done.

        Args:
            size: bytes of the files to download.

        Returns:
            The bytes that the work takes on the disk, besides the downloaded files.
        """
        ...

    def prepare(self, files: Path, place: Path) -> tuple[Path, str]:
        """Do the work.

        Args:
            files: the directory of the downloaded files.
            place: a directory for this work alone.

        Returns:
            The directory to publish, which is in ``place``, and the versions of what made it.
        """
        ...


def pull(
    reference: ModelReference,
    store: ModelStore,
    *,
    hub: Hub | None = None,
    overwrites: bool = False,
    preparation: Preparation | None = None,
) -> PulledModel:
    """Download a model unless it was downloaded before.

    Args:
        hub: None: the hub that the environment names.
        overwrites: download the revision's newest commit, even if the name is taken.
        preparation: the work on safetensors, which are refused without it.

    Raises:
        ModelError: the model cannot be obtained, or another model has its name here. Errors of the
            preparation pass through.
        OSError: the disk fails.
    """
    here = store.origin(reference)
    place = store.model_directory(reference)
    if not overwrites:
        if here is not None and here.answers(reference):
            _check_weights(reference, place, here, preparation)
            return PulledModel(place, here, is_new=False)
        if here is None and reference.revision is None and (place / _GRAPH).is_file():
            # Another program's, such as OpenVINO Model Server's: it writes the graph last.
            origin = ModelOrigin(reference.repository, None, "", reference.file, _AS_IT_IS)
            return PulledModel(place, origin, is_new=False)
        if place.exists():
            raise ModelError(
                f"{place} holds {_described(here)}, not {reference}",
                hint="--overwrite_models replaces it, another --model_repository_path keeps both",
            )
    hub = Hub() if hub is None else hub
    listing = hub.list_files(reference)
    wanted = wanted_files(reference, listing.files)
    needed = 0
    if wanted.form is not ModelForm.SAFETENSORS:
        preparation = None
    elif preparation is None:
        raise ModelError(
            f"{reference} holds safetensors, which must be exported to OpenVINO first",
            hint="name a model in OpenVINO's form or GGUF",
        )
    else:
        needed = preparation.check(wanted.size)
    with store.staging(reference, listing.commit) as staging:
        files = staging / "files"
        files.mkdir(exist_ok=True)
        _forget_others(files, wanted)
        there = sum(_present(files / file.name) for file in wanted.files)
        store.check_space(wanted.size - there + needed)
        with DownloadProgress(f"pulling {reference}", wanted.size, there) as progress:
            transfer = Transfer(hub, reference, listing.commit, files, on_bytes=progress.add)
            _in_background(lambda: transfer.read_all(wanted.files))
        model, weights, exporter = files, None, ""
        if preparation is not None:
            weights = preparation.weights
            model, exporter = preparation.prepare(files, staging)
        origin = ModelOrigin(
            reference.repository,
            reference.revision,
            listing.commit,
            reference.file,
            wanted.form.value,
            main_file=wanted.main_file if wanted.form is ModelForm.GGUF else None,
            weights=weights,
            exporter=exporter,
        )
        store.publish(place, model, origin)
        shutil.rmtree(staging, ignore_errors=True)
    return PulledModel(place, origin, is_new=True)


def _check_weights(
    reference: ModelReference, place: Path, here: ModelOrigin, preparation: Preparation | None
) -> None:
    """Check that a model that is here has the weights that are asked for.

    Raises:
        ModelError: it was exported to others.
    """
    if preparation is None or not preparation.is_asked or here.weights is None:
        return
    if here.weights != preparation.weights:
        raise ModelError(
            f"{place} holds {reference} with weights in {here.weights}, not {preparation.weights}",
            hint="--overwrite_models exports it again, another --model_repository_path keeps both",
        )


def _present(file: Path) -> int:
    """Return the bytes of a file that are downloaded already."""
    for path in (file, file.with_name(file.name + PART_SUFFIX)):
        if path.is_file():
            return path.stat().st_size
    return 0


def _forget_others(directory: Path, wanted: WantedFiles) -> None:
    """Remove files that are not part of the model, such as files of an earlier choice."""
    names = {file.name for file in wanted.files}
    for root, _, files in os.walk(directory):
        for file in files:
            path = Path(root, file)
            name = path.relative_to(directory).as_posix().removesuffix(PART_SUFFIX)
            if name not in names:
                path.unlink()


def _in_background(work: Callable[[], object]) -> None:
    """Run work in a daemon thread, so that Ctrl-C ends the process at once."""
    failure: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.1)
    if failure:
        raise failure[0]


def _described(origin: ModelOrigin | None) -> str:
    if origin is None:
        return "files of another origin"
    file = f":{origin.file}" if origin.file else ""
    return f"{origin.repository}@{origin.revision or origin.commit[:12]}{file}"
