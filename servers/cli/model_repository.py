"""The directory of models that commands use, and downloads into it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from servers.cli.messages import CommandFailed
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


def pull_model(
    reference: ModelReference, directory: Path, *, overwrites: bool = False
) -> PulledModel:
    """Download a model into a directory of models unless it is there.

    Raises:
        CommandFailed: the hub does not have it, or the disk fails.
    """
    store = ModelStore(Path(os.path.abspath(directory)))
    try:
        return pull(reference, store, overwrites=overwrites)
    except HubError as error:
        raise CommandFailed(str(error), hint=error.hint) from error
    except OSError as error:
        raise CommandFailed(f"{store.directory}: {error.strerror or error}") from error
