"""``plugin_config``: OpenVINO's properties as JSON, an option of several families' nodes."""

from __future__ import annotations

import json
from typing import Any

from graph_runtime import ResourceError


def read_json_properties(text: str) -> dict[str, Any]:
    """A JSON object of strings, numbers and booleans; "" is empty.

    ``DEVICE_PROPERTIES`` may hold an object per device. A number of streams becomes a string, as
    OpenVINO wants it.

    Raises:
        ResourceError: anything else.
    """
    if not text.strip():
        return {}
    try:
        config = json.loads(text)
        # Half of a surrogate pair, written as an escape, is JSON and no text.
        json.dumps(config, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ResourceError(
            f'plugin_config: not JSON: {error}; write it as \'{{"KEY": "value"}}\''
        ) from None
    if not isinstance(config, dict):
        raise ResourceError("plugin_config: must be a JSON object of OpenVINO properties")
    for key, value in config.items():
        if key == "DEVICE_PROPERTIES" and isinstance(value, dict):
            is_fine = all(
                isinstance(properties, dict) and all(map(_is_property, properties.values()))
                for properties in value.values()
            )
        else:
            is_fine = _is_property(value)
        if not is_fine:
            raise ResourceError(
                f'plugin_config: the value of "{key}" must be a string, a number or a boolean'
            )
    if isinstance(config.get("NUM_STREAMS"), int):
        config["NUM_STREAMS"] = str(config["NUM_STREAMS"])
    return config


def _is_property(value: object) -> bool:
    """A value that OpenVINO takes: its numbers have 64 bits."""
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, str | float)
