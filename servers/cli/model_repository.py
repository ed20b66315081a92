"""The directory of models that commands use, and downloads into it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from servers.cli.messages import CommandFailed, print_warning
from servers.cli.model_export import ExportOfPull
from servers.export import ExportError
from servers.hub import HubError, ModelReference, read_reference
from servers.hub.model_store import ModelStore
from servers.hub.pull import PulledModel, pull

#: OpenVINO Model Server's variable.
VARIABLE: Final = "OVMS_MODEL_REPOSITORY_PATH"


def default_repository() -> Path:
    """``$OVMS_MODEL_REPOSITORY_PATH``, else a directory beside this user's other caches."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(caches).expanduser() / "graphrt" / "models"


def reference_of(word: str) -> ModelReference | None:
    """Read the name of a hub's model; return None for other words, such as paths.

    Raises:
        CommandFailed: the word names a file that cannot be a model's.
    """
    try:
        return read_reference(word)
    except HubError as error:
        raise CommandFailed(str(error), hint=error.hint, status=2) from error


def repository_of(path: str | None) -> Path:
    """Return the directory of models: the given one, else the default."""
    return Path(path) if path else default_repository()


def read_source(source: str, gguf_filename: str | None) -> ModelReference:
    """Read the name of a hub's model with the options beside it.

    Raises:
        CommandFailed: it is no name of a hub's model, or names two files.
    """
    if gguf_filename is not None:
        if ":" in source:
            raise CommandFailed(
                f"{source} names a file, and --gguf_filename {gguf_filename} another one",
                hint="leave one of them out",
                status=2,
            )
        source = f"{source}:{gguf_filename}"
    reference = reference_of(source)
    if reference is None:
        raise CommandFailed(
            f"{source} is no name of a hub's model",
            hint="the form is org/name[@revision][:file.gguf]; "
            f"a model of this machine needs no pull: `graphrt serve {source}`",
            status=2,
        )
    return reference


def pull_model(
    reference: ModelReference,
    directory: Path,
    preparation: ExportOfPull,
    *,
    overwrites: bool = False,
) -> PulledModel:
    """Download a model into a directory of models unless it is there; export safetensors.

    Raises:
        CommandFailed: the hub does not have it, it cannot be exported, or the disk fails.
    """
    with models_in(directory) as store:
        model = pull(reference, store, overwrites=overwrites, preparation=preparation)
    if preparation.is_asked and model.origin.weights is None:
        print_warning(
            f"--weight_format has no effect: {reference} is a model of {model.origin.form}, whose "
            "weights stay as they are"
        )
    return model


@contextmanager
def models_in(directory: Path) -> Iterator[ModelStore]:
    """Return a directory of models for work in it, whose errors become `CommandFailed`."""
    store = ModelStore(Path(os.path.abspath(directory)))
    try:
        yield store
    except (HubError, ExportError) as error:
        raise CommandFailed(str(error), hint=error.hint) from error
    except OSError as error:
        place = error.filename or store.directory
        raise CommandFailed(f"{place}: {error.strerror or error}") from error
