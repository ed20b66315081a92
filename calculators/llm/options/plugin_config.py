"""``plugin_config`` of a language model: OpenVINO's properties, those of the cache checked."""

from __future__ import annotations

from calculators.llm.engine.engine_settings import PluginValue
from calculators.llm.options.cache_precision import check_cache_precision
from calculators.plugin_config import read_json_properties


def read_plugin_config(
    text: str,
) -> dict[str, PluginValue | dict[str, dict[str, PluginValue]]]:
    """`read_json_properties`, with the precision of the key-value cache checked.

    Raises:
        ResourceError: no JSON object of properties, or a precision of the cache that is none.
    """
    config = read_json_properties(text)
    check_cache_precision(config)
    for value in config.get("DEVICE_PROPERTIES", {}).values():
        check_cache_precision(value)
    return config
