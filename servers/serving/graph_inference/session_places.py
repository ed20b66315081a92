"""Sessions with models in places of their own."""

from __future__ import annotations

from calculators.kit.places import Places
from calculators.tensors.openvino.model_provider import ModelSources
from calculators.tensors.openvino.placed_model import PlacedModels
from graph_runtime import GraphError, ResourceSettings, ValidatedGraph
from servers.serving.graph_inference.model_tensors import model_of_session, sessions_of


async def place_models(
    plan: ValidatedGraph, models: ModelSources, settings: ResourceSettings
) -> PlacedModels:
    """Return the models of a graph's sessions, those of sessions with a place being there.

    Raises:
        GraphError: such a model cannot be loaded; the text names the node.
    """
    placed = PlacedModels(models)
    for session in sessions_of(plan):
        place = settings.of(Places).of_node(session.name)
        if place is None:
            continue
        try:
            await placed.place(*model_of_session(session), place, settings.progress)
        except GraphError as error:
            raise GraphError(f'node "{session.name}": {error}', code=error.code) from error
    return placed
