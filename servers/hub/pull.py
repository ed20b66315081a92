"""`pull`: download a model of a hub into the directory of models."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from servers.hub.errors import HubError
from servers.hub.hub import Hub
from servers.hub.model_reference import ModelReference
from servers.hub.model_store import ModelStore, Origin
from servers.hub.progress import Progress
from servers.hub.transfer import PART_SUFFIX, Transfer
from servers.hub.wanted_files import Form, WantedFiles, wanted_files

_GRAPH: Final = "graph.pbtxt"
_AS_IT_IS: Final = "a form that its graph.pbtxt names"


@dataclass(frozen=True, slots=True)
class PulledModel:
    """A downloaded model. ``is_new``: this call downloaded it."""

    directory: Path
    origin: Origin
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
        HubError: the model cannot be obtained, or another model has its name here. Errors of the
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
            origin = Origin(reference.repository, None, "", reference.file, _AS_IT_IS)
            return PulledModel(place, origin, is_new=False)
        if place.exists():
            raise HubError(
                f"{place} holds {_described(here)}, not {reference}",
                hint="--overwrite_models replaces it, another --model_repository_path keeps both",
            )
    hub = Hub() if hub is None else hub
    listing = hub.list_files(reference)
    wanted = wanted_files(reference, listing.files)
    needed = 0
    if wanted.form is not Form.SAFETENSORS:
        preparation = None
    elif preparation is None:
        raise HubError(
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
        with Progress(f"pulling {reference}", wanted.size, there) as progress:
            transfer = Transfer(hub, reference, listing.commit, files, on_bytes=progress.add)
            _in_background(lambda: transfer.read_all(wanted.files))
        model, weights, exporter = files, None, ""
        if preparation is not None:
            weights = preparation.weights
            model, exporter = preparation.prepare(files, staging)
        origin = Origin(
            reference.repository,
            reference.revision,
            listing.commit,
            reference.file,
            wanted.form.value,
            main_file=wanted.main_file if wanted.form is Form.GGUF else None,
            weights=weights,
            exporter=exporter,
        )
        store.publish(place, model, origin)
        shutil.rmtree(staging, ignore_errors=True)
    return PulledModel(place, origin, is_new=True)


def _check_weights(
    reference: ModelReference, place: Path, here: Origin, preparation: Preparation | None
) -> None:
    """Check that a model that is here has the weights that are asked for.

    Raises:
        HubError: it was exported to others.
    """
    if preparation is None or not preparation.is_asked or here.weights is None:
        return
    if here.weights != preparation.weights:
        raise HubError(
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
    """Remove files that are not part of the model, such as those of an earlier choice."""
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


def _described(origin: Origin | None) -> str:
    if origin is None:
        return "files of another origin"
    file = f":{origin.file}" if origin.file else ""
    return f"{origin.repository}@{origin.revision or origin.commit[:12]}{file}"
