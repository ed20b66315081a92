"""`PythonResourceInitializer`: fills ``PYTHON_NODE_RESOURCES``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calculators.python.handler import PythonHandler, load_handler
from calculators.python.handler_file import HandlerFileError
from graph_runtime import NodePlan, ResourceError, ResourceSettings, find_options

RESOURCES_TAG: Final = "PYTHON_NODE_RESOURCES"
CALCULATOR: Final = "PythonExecutorCalculator"
OPTIONS_TYPE: Final = "mediapipe.PythonExecutorCalculatorOptions"


class PythonResourceInitializer:
    """Loads the handler of every `PythonExecutorCalculator` node."""

    tag: str = RESOURCES_TAG
    context_tags: Sequence[str] = ()

    def matches(self, calculator: str) -> bool:
        return calculator == CALCULATOR

    async def make(self, node: NodePlan, settings: ResourceSettings) -> PythonHandler:
        name = node.config.name
        given = find_options(node.config, OPTIONS_TYPE).handler_path
        if not given:
            raise ResourceError(
                f'node "{name}": it has no handler_path; it needs node_options: {{ '
                f'[type.googleapis.com/{OPTIONS_TYPE}]: {{ handler_path: "model.py" }} }}'
            )
        path = (settings.directory / given).resolve()
        kwargs = {
            "node_name": name,
            "input_names": _stream_names(node.config.input_stream),
            "output_names": _stream_names(node.config.output_stream),
            "base_path": str(path.parent),
        }
        try:
            return await load_handler(name, path, kwargs)
        except HandlerFileError as error:
            raise ResourceError(f'node "{name}": handler_path "{given}": {error}') from error


def _stream_names(entries: Sequence[str]) -> list[str]:
    """``"TAG:name"`` -> "name", in the order of the graph."""
    return [entry.rpartition(":")[2] for entry in entries]
