"""The check of the models that a graph's sessions name. Nothing is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from calculators.tensors.openvino.directory_models import DirectoryModels
from graph_runtime import GraphError, ValidatedGraph
from servers.config import GraphEntry, ModelEntry
from servers.serving.graph_inference.graph_interface import model_of_session, sessions_of
from servers.serving.models.model_version import version_paths


def session_errors(
    plan: ValidatedGraph, entry: GraphEntry, models: Mapping[str, ModelEntry]
) -> Iterator[tuple[str, str]]:
    """Yield (node, reason) of each session whose model or version does not exist.

    ``models``: the models of the config.
    """
    for session in sessions_of(plan):
        name, version = model_of_session(session)
        try:
            _check_model(entry, name, version, models)
        except GraphError as error:
            yield session.config.name or session.name, str(error)


def _check_model(
    entry: GraphEntry, name: str, version: int | None, models: Mapping[str, ModelEntry]
) -> None:
    """Check that a model and its version exist.

    Raises:
        GraphError: there is no such model or version.
    """
    if name not in models:
        DirectoryModels(entry.directory).check(name, version)
        return
    paths = version_paths(models[name])
    if version is not None and version not in paths:
        there = ", ".join(map(str, paths))
        raise GraphError(f'the model "{name}" has no version {version}; it has {there}')
