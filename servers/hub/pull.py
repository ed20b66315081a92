"""`pull`: download a model of a hub into the directory of models."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from servers.hub.errors import HubError
from servers.hub.hub import Hub
from servers.hub.model_reference import ModelReference
from servers.hub.model_store import ModelStore, Origin, origin_of
from servers.hub.progress import Progress
from servers.hub.transfer import PART_SUFFIX, Transfer
from servers.hub.wanted_files import Form, WantedFiles, wanted_files


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


def pull(
    reference: ModelReference,
    store: ModelStore,
    *,
    hub: Hub | None = None,
    overwrites: bool = False,
    prepare: Callable[[Path, WantedFiles], Path] | None = None,
) -> PulledModel:
    """Download a model unless it was downloaded before.

    Args:
        hub: None: the hub that the environment names.
        overwrites: download the revision's newest commit, even if the name is taken.
        prepare: receives the staging directory with the downloaded files, and returns the
            directory to keep, which may be another one beside it.

    Raises:
        HubError: the model cannot be obtained, or another model has its name here.
        OSError: the disk fails.
    """
    here = store.origin(reference)
    place = store.model_directory(reference)
    if not overwrites:
        if here is not None and here.answers(reference):
            return PulledModel(place, here, is_new=False)
        if place.exists():
            raise HubError(
                f"{place} holds {_described(here)}, not {reference}",
                hint="--overwrite_models replaces it, another --model_repository_path keeps both",
            )
    hub = Hub() if hub is None else hub
    listing = hub.list_files(reference)
    wanted = wanted_files(reference, listing.files)
    if prepare is None and wanted.form is Form.SAFETENSORS:
        raise HubError(
            f"{reference} holds safetensors, which must be exported to OpenVINO first",
            hint="pip install 'graphrt[export]', or name a model in OpenVINO's form or GGUF",
        )
    with store.staging(reference, listing.commit) as staging:
        files = staging / "files"
        files.mkdir(exist_ok=True)
        _forget_others(files, wanted)
        there = sum(_present(files / file.name) for file in wanted.files)
        store.check_space(wanted.size - there)
        with Progress(f"pulling {reference}", wanted.size, there) as progress:
            transfer = Transfer(hub, reference, listing.commit, files, on_bytes=progress.add)
            _in_background(lambda: transfer.read_all(wanted.files))
        model = files if prepare is None else prepare(files, wanted)
        main_file = wanted.main_file if wanted.form is Form.GGUF else None
        origin = origin_of(reference, listing.commit, wanted.form, main_file)
        place = store.publish(reference, model, origin)
        shutil.rmtree(staging, ignore_errors=True)
    return PulledModel(place, origin, is_new=True)


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
