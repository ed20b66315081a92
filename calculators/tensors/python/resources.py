"""`PythonResourceInitializer`: fills ``PYTHON_NODE_RESOURCES``."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from calculators.kit.child_process.supervisor import LoadError
from calculators.kit.model_identity import model_identity
from calculators.tensors.python.handler_file import HandlerFileError
from calculators.tensors.python.handler_options import CALCULATOR, OPTIONS_TYPE
from calculators.tensors.python.handler_settings import HandlerSettings
from calculators.tensors.python.instance import Instance
from calculators.tensors.python.process_instance import ProcessInstance
from calculators.tensors.python.python_node import PythonNode
from calculators.tensors.python.tags import LOOPBACK, RESPONSE_TAGS
from calculators.tensors.python.thread_instance import load_in_thread
from graph_runtime import (
    LoadProgress,
    NodePlan,
    NodeResource,
    ResourceError,
    ResourceSettings,
    find_options,
)
from graph_runtime.regular_file import read_regular_file

RESOURCES_TAG: Final = "PYTHON_NODE_RESOURCES"
#: Limit of instances: more threads or processes than this are of no use on any machine.
MAX_INSTANCES: Final = 256
#: Bytes of a handler's file; a larger one is no code.
_LARGEST_CODE: Final = 16 * 1024 * 1024


class PythonResourceInitializer:
    """Loads the handler instances of every `PythonExecutorCalculator` node."""

    tag: str = RESOURCES_TAG
    context_tags: Sequence[str] = ()

    def matches(self, calculator: str) -> bool:
        return calculator == CALCULATOR

    def check(self, node: NodePlan, settings: ResourceSettings) -> Sequence[str]:
        handler = _handler_settings(node, settings, _checked(node).handler_path)
        if not Path(handler.path).is_file():
            raise _handler_error(node, "no such file")
        return ()

    async def make(self, node: NodePlan, settings: ResourceSettings) -> PythonNode:
        options = _checked(node)
        handler = _handler_settings(node, settings, options.handler_path)
        try:
            return await _loaded(handler, options, settings.progress)
        except (HandlerFileError, LoadError) as error:
            raise _handler_error(node, error) from error

    def identity(self, node: NodePlan, settings: ResourceSettings) -> str | None:
        """See `graph_runtime.SharingInitializer`. All that a handler may import or read counts, as
        far as it is beside its file."""
        options = _checked(node)
        handler = _handler_settings(node, settings, options.handler_path)
        path = Path(handler.path)
        try:
            code = hashlib.sha256(read_regular_file(path, _LARGEST_CODE)).hexdigest()
        except OSError:  # `make` says what is wrong
            return None
        folder = path.parent
        return model_identity(
            *(handler, options.SerializeToString(deterministic=True), code),
            paths=(folder, *folder.glob("*.py"), *folder.glob("*/*.py")),
        )

    async def adopt(
        self, resource: NodeResource, node: NodePlan, settings: ResourceSettings
    ) -> NodeResource:
        """Return ``resource``: all options belong to its identity."""
        return resource


def _checked(node: NodePlan) -> Any:
    """The options of a node.

    Raises:
        ResourceError: an option is wrong; the text names node and field, and what would be right.
    """
    name = node.config.name
    options = find_options(node.config, OPTIONS_TYPE)
    if not options.handler_path:
        raise ResourceError(
            f'node "{name}": it has no handler_path; it needs node_options: {{ '
            f'[type.googleapis.com/{OPTIONS_TYPE}]: {{ handler_path: "model.py" }} }}'
        )
    if not 1 <= options.instances <= MAX_INSTANCES:
        raise ResourceError(
            f'node "{name}": instances: {options.instances} is not from 1 to {MAX_INSTANCES}'
        )
    if not options.cancel_grace_seconds >= 0:
        raise ResourceError(
            f'node "{name}": cancel_grace_seconds: {options.cancel_grace_seconds} is not 0 or more'
        )
    return options


def _handler_error(node: NodePlan, reason: object) -> ResourceError:
    given = find_options(node.config, OPTIONS_TYPE).handler_path
    return ResourceError(f'node "{node.config.name}": handler_path "{given}": {reason}')


def _handler_settings(node: NodePlan, settings: ResourceSettings, given: str) -> HandlerSettings:
    path = (settings.directory / given).resolve()
    outputs = [
        (tag, stream)
        for (tag, _), stream in zip(node.outputs.keys, node.outputs.names, strict=True)
        if tag != LOOPBACK
    ]
    return HandlerSettings(
        node_name=node.config.name,
        path=str(path),
        input_names=_stream_names(node.config.input_stream),
        output_names=_stream_names(node.config.output_stream),
        base_path=str(path.parent),
        streams=[stream for _, stream in outputs],
        response=next((stream for tag, stream in outputs if tag in RESPONSE_TAGS), None),
        may_generate=node.outputs.has_tag(LOOPBACK),
        log_level=logging.getLogger().getEffectiveLevel(),
    )


async def _loaded(handler: HandlerSettings, options: Any, progress: LoadProgress) -> PythonNode:
    """Load all instances concurrently; if one fails, all are closed."""
    node = PythonNode(handler.node_name)
    type_ = options.DESCRIPTOR.fields_by_name["isolation"].enum_type
    is_thread = options.isolation == type_.values_by_name["THREAD"].number

    async def load(number: int, part: LoadProgress) -> None:
        instance: Instance
        if is_thread:
            part.begin("initializing a handler", 0.0)
            instance = await load_in_thread(handler)
        else:
            which = f" {number}" if options.instances > 1 else ""
            instance = process = ProcessInstance(
                handler,
                name=f'handler{which} of node "{handler.node_name}"',
                grace_seconds=options.cancel_grace_seconds,
                on_down=node.instance_ended,
                on_back=node.instance_is_back,
            )
            await process.start(part)
        part.finish()
        node.add(instance)

    parts = progress.split(*(1.0 for _ in range(options.instances)))
    loads = [asyncio.ensure_future(load(number, part)) for number, part in enumerate(parts, 1)]
    try:
        for failed in await asyncio.gather(*loads, return_exceptions=True):
            if failed is not None:
                raise failed
    except BaseException:
        await asyncio.wait(loads)
        await node.close()
        raise
    return node


def _stream_names(entries: Sequence[str]) -> list[str]:
    """Return names without tags, ``"TAG:name"`` -> "name", in the order of the graph."""
    return [entry.rpartition(":")[2] for entry in entries]
