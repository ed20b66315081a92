"""Calculators by family: ``core`` for every graph, others by what they serve.

Nothing is registered by importing; `register_all` is the entry point ``graphrt.calculators``.
Families that serve endpoints are tasks, which have entry points of their own (`calculators.tasks`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graph_runtime import Registry


def register_all(registry: Registry) -> None:
    """Add every family's calculators, and those of all installed tasks, to a registry."""
    # Imported here: processes that run one family's code must not pay for the others.
    from calculators import (
        answer_cache,
        core,
        ensemble,
        image,
        moderation,
        openvino,
        python,
        redaction,
        retrieval,
        routing,
        server_tools,
        tasks,
        vision,
    )

    core.register(registry)
    answer_cache.register(registry)
    ensemble.register(registry)
    routing.register(registry)
    image.register(registry)
    moderation.register(registry)
    openvino.register(registry)
    python.register(registry)
    redaction.register(registry)
    retrieval.register(registry)
    server_tools.register(registry)
    tasks.register(registry)
    vision.register(registry)
