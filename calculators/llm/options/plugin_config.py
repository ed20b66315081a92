"""``plugin_config`` of a language model: properties of OpenVINO, with checks of the cache's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from calculators.kit.device_options import read_json_properties
from calculators.llm.engine.engine_settings import PluginValue
from graph_runtime import ResourceError

#: graphrt's own property, and its values; see `calculators.kit.checkpoints.packed.Form`.
WEIGHTS_FORM: Final = "WEIGHTS_FORM"
WEIGHTS_FORMS: Final = ("scaled", "split", "exact")

_BOTH: Final = "KV_CACHE_PRECISION"
_KEYS: Final = "KEY_CACHE_PRECISION"
_VALUES: Final = "VALUE_CACHE_PRECISION"
_GROUPS: Final = ("KEY_CACHE_GROUP_SIZE", "VALUE_CACHE_GROUP_SIZE")
_QUANTIZED: Final = ("u8", "i8", "u4", "i4", "u3")
_PLAIN: Final = ("f16", "bf16", "f32", "dynamic")


def read_plugin_config(
    text: str,
) -> dict[str, PluginValue | dict[str, dict[str, PluginValue]]]:
    """Read properties as `read_json_properties` does, and check the precision of the cache.

    Raises:
        ResourceError: the text is no JSON object of properties, or a precision is unknown, or two
            precisions cannot go together.
    """
    config = read_json_properties(text)
    _check_cache_precision(config)
    for value in config.get("DEVICE_PROPERTIES", {}).values():
        _check_cache_precision(value)
    return config


def read_weights_form(config: dict[str, Any], model: Path) -> str:
    """Take the form of a GGUF file's weights out of the properties; "" leaves it to the server.

    With the file's own numbers (``exact``) nothing else rounds either: the inputs of products are
    not quantized.

    Raises:
        ResourceError: there is no such form, or the model is no GGUF file.
    """
    form = config.pop(WEIGHTS_FORM, "")
    if form == "":
        return ""
    if form not in WEIGHTS_FORMS:
        raise ResourceError(
            f"plugin_config: {WEIGHTS_FORM}: must be one of {', '.join(WEIGHTS_FORMS)}, not "
            f"{str(form)[:40]!r}"
        )
    if not model.is_file():
        raise ResourceError(
            f"plugin_config: {WEIGHTS_FORM}: only a GGUF file is converted; leave it out"
        )
    if form == "exact":
        config.setdefault("DYNAMIC_QUANTIZATION_GROUP_SIZE", 0)
    return str(form)


def _check_cache_precision(properties: Mapping[str, object]) -> None:
    given = {name: _precision(name, properties[name]) for name in _all(properties)}
    for name in _GROUPS:
        if name in properties:
            _check_group(name, properties[name])
    if _BOTH in given:
        return
    for name, other in ((_KEYS, _VALUES), (_VALUES, _KEYS)):
        if given.get(name) in _QUANTIZED and given.get(other) not in _QUANTIZED:
            raise ResourceError(
                f'plugin_config: {name} is "{given[name]}" and {other} is not quantized; give both '
                f"one of {', '.join(_QUANTIZED)}, or {_BOTH} for both"
            )


def precision_hint(reason: str, properties: Mapping[str, object]) -> str:
    """Return the properties that an error of the library is about but does not name, else ""."""
    given = _all(properties)
    if "cache type" in reason and given:
        shown = ", ".join(f'{name}: "{properties[name]}"' for name in given)
        return (
            f" (plugin_config: {shown}: a cache that is not quantized has the precision of "
            "INFERENCE_PRECISION_HINT)"
        )
    sizes = [name for name in _GROUPS if name in properties]
    if "ConvertPagedAttnInputs" in reason and sizes:
        shown = ", ".join(f"{name}: {properties[name]}" for name in sizes)
        return f" (plugin_config: {shown}: must divide the size of the model's heads; 0 is all)"
    return ""


def _all(properties: Mapping[str, object]) -> list[str]:
    return [name for name in (_BOTH, _KEYS, _VALUES) if name in properties]


def _precision(name: str, value: object) -> str:
    known = (*_QUANTIZED, *_PLAIN)
    if not isinstance(value, str) or value.lower() not in known:
        raise ResourceError(
            f"plugin_config: {name}: {value!r} is no precision of a cache; known are: "
            f"{', '.join(known)}"
        )
    return value.lower()


def _check_group(name: str, value: object) -> None:
    if isinstance(value, str):
        value = int(value) if value.isdecimal() else -1
    if type(value) is not int or value < 0:
        raise ResourceError(
            f"plugin_config: {name}: must be a whole number, 0 or more: the numbers that share a "
            "scale; 0 is all of a head"
        )
