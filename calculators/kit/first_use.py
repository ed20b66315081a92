"""Imports that the first request to a graph would wait for, made while the graph is loaded.

Modules import some libraries when they need them, because a check of a graph needs none of them. In
a server the first need is a request, and an import from a cold disk blocks the event loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from typing import Final

from graph_runtime import GraphError

#: The first part of calculators' modules, and what their first call imports: a module, or a
#: function of it that does so.
_NEEDS: Final = {
    "calculators.images.image.": ("calculators.images.image.opencv", "opencv"),
    "calculators.vision.": ("calculators.images.image.opencv", "opencv"),
    "calculators.llm.": ("calculators.llm.api.whole_answer", ""),
}


def import_for(modules: Iterable[str]) -> None:
    """Import what the first calls of calculators in these modules would."""
    needed = {
        need for module in modules for part, need in _NEEDS.items() if module.startswith(part)
    }
    for module, function in sorted(needed):
        found = import_module(module)
        if function:
            with suppress(GraphError):  # not installed: a request that needs it is told
                getattr(found, function)()
