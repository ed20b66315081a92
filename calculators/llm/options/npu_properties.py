"""Properties of an NPU in ``plugin_config``, above all the length of the longest prompt."""

from __future__ import annotations

from typing import Any, Final

from calculators.llm.engine.engine_settings import NPU
from calculators.llm.engine.pipeline_kind import KINDS, PipelineType
from graph_runtime import ResourceError

_LONGEST: Final = "MAX_PROMPT_LEN"
_BY_DEVICE: Final = "DEVICE_PROPERTIES"
#: openvino-genai's default.
_DEFAULT_LONGEST: Final = 1024


def read_max_prompt_length(plugin_config: dict[str, Any], device: str) -> int | None:
    """Return the tokens of the longest prompt; None if the device has no limit.

    ``MAX_PROMPT_LEN`` is read at the top level, and among the properties of the NPU.

    Raises:
        ResourceError: the value is no length, or there are two, or the device is not an NPU.
    """
    if device != NPU:
        if _LONGEST in plugin_config and NPU not in device:
            shown = f'device is "{device}"' if device else "device is not set"
            raise ResourceError(f"plugin_config: {_LONGEST}: only device NPU has it; {shown}")
        return None
    given: list[int] = []
    for where, properties in (
        ("", plugin_config),
        (f"{_BY_DEVICE}.{NPU}.", _of_npu(plugin_config)),
    ):
        if _LONGEST not in properties:
            continue
        value = properties[_LONGEST]
        if type(value) is not int or value < 1:
            raise ResourceError(
                f"plugin_config: {where}{_LONGEST}: must be a number of tokens from 1 on, "
                f"without quotation marks, not {value!r}"
            )
        given.append(value)
    if len(set(given)) > 1:
        raise ResourceError(
            f"plugin_config: {_LONGEST} is {given[0]}, and {given[1]} in {_BY_DEVICE}.{NPU}; "
            "leave one of them"
        )
    return given[0] if given else _DEFAULT_LONGEST


def with_npu_at_top(
    plugin_config: dict[str, Any], pipeline_type: PipelineType, device: str
) -> dict[str, Any]:
    """Move the properties of the NPU to the top level, where text pipelines look for them.

    Image pipelines look in both places, and pass the top level to the CPU too, so nothing is moved.

    Raises:
        ResourceError: see `read_max_prompt_length`.
    """
    read_max_prompt_length(plugin_config, device)
    of_npu = _of_npu(plugin_config)
    if device != NPU or not KINDS[pipeline_type].properties_at_top or not of_npu:
        return plugin_config
    by_device = {name: of for name, of in plugin_config[_BY_DEVICE].items() if name != NPU}
    rest = {name: value for name, value in plugin_config.items() if name != _BY_DEVICE}
    return {**rest, **of_npu, **({_BY_DEVICE: by_device} if by_device else {})}


def _of_npu(plugin_config: dict[str, Any]) -> dict[str, Any]:
    by_device = plugin_config.get(_BY_DEVICE)
    of_npu = by_device.get(NPU) if isinstance(by_device, dict) else None
    return of_npu if isinstance(of_npu, dict) else {}
