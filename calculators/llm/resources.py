"""`LlmResourceInitializer`: makes the side packet ``LLM_NODE_RESOURCES``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from calculators.images.media.media_rules import MediaRules
from calculators.kit.device_options import device_problem
from calculators.kit.model_initializer import (
    cache_of,
    check_model_files,
    conversions_of,
    model_identity,
)
from calculators.kit.places import Places
from calculators.kit.tasks.nodes import naming_node
from calculators.llm.options.node_options import NodeOptions, read_node_options
from calculators.llm.task_options import LlmSettings
from graph_runtime import NodePlan, NodeResource, ResourceError, ResourceSettings

if TYPE_CHECKING:
    from calculators.llm.servable import LlmServable

RESOURCES_TAG = "LLM_NODE_RESOURCES"
CONTEXTS_TAG = "LLM_NODE_EXECUTION_CONTEXTS"


class LlmResourceInitializer:
    """Loads the model of every node whose calculator's name ends in ``LLMCalculator``.

    The contexts that newer graphs have stay empty: each run of a graph has its own state.
    """

    tag: str = RESOURCES_TAG
    context_tags: Sequence[str] = (CONTEXTS_TAG,)

    def matches(self, calculator: str) -> bool:
        return calculator.endswith("LLMCalculator")

    def check(self, node: NodePlan, settings: ResourceSettings) -> Sequence[str]:
        options = _read(node, settings)
        draft = options.engine.draft
        devices = {"device": options.engine.device, "draft_device": draft.device if draft else ""}
        with naming_node(node):
            for field, device in devices.items():
                if device and (problem := device_problem(device)):
                    raise ResourceError(f"{field}: {problem}")
        return options.warnings

    def identity(self, node: NodePlan, settings: ResourceSettings) -> str | None:
        """Return the identity of the engine; see `graph_runtime.SharingInitializer`."""
        options = read_node_options(node, settings)
        return model_identity(options.engine, paths=options.files())

    async def make(self, node: NodePlan, settings: ResourceSettings) -> LlmServable:
        # Here: a check of a graph loads no model. The first request shall not wait for imports.
        from calculators.llm.answers import answer_writer  # noqa: F401
        from calculators.llm.endpoints import import_handlings
        from calculators.llm.engine.engine import watch_engine
        from calculators.llm.servable_loading import load_servable

        # In a thread: checks of adapters read the whole model file.
        options = await asyncio.to_thread(_read, node, settings)
        place = settings.of(Places).of_node(node.name)
        with naming_node(node):
            loading = load_servable(
                options,
                name=settings.model_name or node.config.name,
                settings=settings.of(LlmSettings),
                media=settings.of(MediaRules),
                cache=cache_of(settings),
                conversions=conversions_of(settings),
                progress=settings.progress,
                place=place,
            )
            servable, _ = await asyncio.gather(loading, asyncio.to_thread(import_handlings))
        if place is None:  # otherwise the engine's metrics are where it is
            metrics = settings.metrics.of_node(node.config.name)
            servable.on_close = watch_engine(metrics, servable.engine)
        return servable

    async def adopt(
        self, resource: NodeResource, node: NodePlan, settings: ResourceSettings
    ) -> LlmServable:
        """Return the model that ``resource`` has loaded, with parsers and limits of ``node``."""
        from calculators.llm.servable import LlmServable
        from calculators.llm.servable_loading import make_servable

        assert isinstance(resource, LlmServable)
        options = await asyncio.to_thread(read_node_options, node, settings)
        with naming_node(node):
            return make_servable(
                resource.model,
                options,
                name=settings.model_name or node.config.name,
                settings=settings.of(LlmSettings),
                media=settings.of(MediaRules),
            )


def _read(node: NodePlan, settings: ResourceSettings) -> NodeOptions:
    options = read_node_options(node, settings)
    with naming_node(node):
        check_model_files(options.files())
    return options
