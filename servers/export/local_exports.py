"""Exports of directories of this machine, kept in the directory of models.

Nothing is written to the user's directory. Each directory has one export for each form of weights;
it is made again when the files or the exporter have changed.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path
from typing import Final

from servers.export.errors import ExportError
from servers.export.export import (
    SAFETENSORS,
    ExportRequest,
    export,
    model_files,
    space_for,
    weights_in,
)
from servers.export.exporter import find_exporter, missing_exporter
from servers.hub.model_store import ModelStore, Origin, read_origin

#: The directory of exports in the directory of models. No owner on a hub has such a name.
_EXPORTS: Final = "_exported"
#: Changes when graphrt calls the exporter in another way, so that exports are made again.
_RECIPE: Final = "1"
#: Larger files are identified by their size and time of change: reading them would take long.
_LARGEST_READ: Final = 64 << 20


def exported(request: ExportRequest, store: ModelStore, *, overwrites: bool = False) -> Path:
    """Return the directory of the export of a directory; make it unless it is there.

    Raises:
        ExportError: there is no exporter, or it fails.
        HubError: another process is exporting the same, or the disk is full.
        OSError: the disk fails.
    """
    place = store.directory / _EXPORTS / _name(request)
    exporter = find_exporter()
    content = _content(request)
    here = read_origin(place)
    # Where exports are only served, there may be no exporter.
    if (
        here is not None
        and here.commit == content
        and (exporter is None or here.exporter == exporter.versions)
        and not overwrites
    ):
        return place
    if exporter is None:
        raise missing_exporter(request.name)
    busy = f"another process is exporting {request.name} to {request.form}"
    store.directory.mkdir(parents=True, exist_ok=True)
    with store.workspace(f"{_EXPORTS}--{place.name}", busy) as workspace:
        store.check_space(space_for(weights_in(request.source), request.form))
        result = export(request, exporter, workspace)
        if _content(request) != content:
            raise ExportError(
                f"files in {request.source} have changed while they were exported",
                hint="start again when the model is complete",
            )
        origin = Origin(
            repository=str(request.source),
            revision=None,
            commit=content,
            file=None,
            form="safetensors",
            weights=str(request.form),
            exporter=exporter.versions,
        )
        store.publish(place, result, origin)
        shutil.rmtree(workspace, ignore_errors=True)
    return place


def _name(request: ExportRequest) -> str:
    """Return the name of an export: readable, and different for each directory and form."""
    words = (str(request.source), str(request.form), *request.arguments)
    key = hashlib.sha256("\0".join(words).encode("utf-8", "surrogateescape")).hexdigest()[:8]
    readable = re.sub(r"[^\w.-]+", "-", request.source.name, flags=re.ASCII).strip("-.")
    return f"{readable or 'model'}-{request.form.weight_format}-{key}"


def _content(request: ExportRequest) -> str:
    """Return a digest of the files of a model."""
    digest = hashlib.sha256(_RECIPE.encode())
    for path in model_files(request.source):
        status = path.stat()
        name = path.relative_to(request.source).as_posix()
        digest.update(f"\0{name}\0{status.st_size}\0".encode("utf-8", "surrogateescape"))
        if path.suffix == SAFETENSORS or status.st_size > _LARGEST_READ:
            digest.update(str(status.st_mtime_ns).encode())
        else:
            digest.update(path.read_bytes())
    return digest.hexdigest()
