"""``plugin_config``: properties for OpenVINO, as JSON."""

from __future__ import annotations

import json

from calculators.llm.engine.engine_settings import PluginValue
from calculators.llm.options.cache_precision import check_cache_precision
from graph_runtime import ResourceError


def read_plugin_config(
    text: str,
) -> dict[str, PluginValue | dict[str, dict[str, PluginValue]]]:
    """``plugin_config``: a JSON object of strings, numbers and booleans; "" is empty.

    ``DEVICE_PROPERTIES`` may hold an object per device.

    Raises:
        ResourceError: anything else, or a precision of the cache that is none.
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
                isinstance(properties, dict) and all(map(_is_plugin_value, properties.values()))
                for properties in value.values()
            )
        else:
            is_fine = _is_plugin_value(value)
        if not is_fine:
            raise ResourceError(
                f'plugin_config: the value of "{key}" must be a string, a number or a boolean'
            )
    check_cache_precision(config)
    for value in config.get("DEVICE_PROPERTIES", {}).values():
        check_cache_precision(value)
    if isinstance(config.get("NUM_STREAMS"), int):
        config["NUM_STREAMS"] = str(config["NUM_STREAMS"])
    return config


def _is_plugin_value(value: object) -> bool:
    """What the library takes: numbers are 64 bits there."""
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, str | float)
