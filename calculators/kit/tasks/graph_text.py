"""Text of a task's graph, for a model's directory that holds no graph.pbtxt."""

from __future__ import annotations

import json
from collections.abc import Iterable

from calculators.kit.device_options import read_json_properties
from calculators.kit.tasks.options import DeviceOptions
from calculators.kit.tasks.task import TaskError
from graph_runtime import ResourceError


def graph_text(
    template: str,
    models_path: str,
    options: DeviceOptions,
    own: Iterable[str] = (),
    *,
    device_field: str = "target_device",
) -> str:
    """Return the text of a graph.

    Args:
        template: the graph, with ``%s`` where the fields of its node's options stand.
        models_path: relative to the directory that the graph is served from.
        own: lines of the task's own fields, see `field`.
        device_field: the name of the field for ``options.target_device``.

    Raises:
        TaskError: ``plugin_config`` is no JSON object of OpenVINO properties.
    """
    try:
        read_json_properties(options.plugin_config)
    except ResourceError as error:
        raise TaskError(f"--{error.message}") from None
    lines = [field("models_path", quoted(models_path)), *own]
    if options.target_device:
        lines.append(field(device_field, quoted(options.target_device)))
    if options.plugin_config:
        lines.append(field("plugin_config", quoted(options.plugin_config)))
    return template % "\n".join(f"      {line}" for line in lines)


def field(name: str, value: object) -> str:
    """Return the line of a field; ``value``: as it stands in the text."""
    return f"{name}: {value}"


def quoted(value: str) -> str:
    """Return a string as the graph's text has it."""
    return json.dumps(value, ensure_ascii=False)
