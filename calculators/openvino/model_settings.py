"""`ModelSettings`: what a configuration says about a model, beside its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from calculators.openvino.tensor_spec import Dimension

#: The key of a setting that names no tensor: of every input, or of the only one.
ANY_INPUT: Final = ""

ANY_LENGTH: Final = Dimension(0, None)

#: What the client sends, and what the model takes.
Conversion: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """How a model is changed before it is compiled, and how it is run.

    Changes are made in this order: layouts and precisions, then shapes, or the batch.

    Attributes:
        target_device: as OpenVINO names it.
        plugin_config: OpenVINO's properties.
        nireq: infer requests, that is how many inferences may run at a time; 0 is as many as
            OpenVINO advises.
        shapes: by input; of None every axis may have any length. `ANY_INPUT`: of the only input,
            or None of all.
        batch_size: of the axis N of every input, the first one where no layout says another. Not
            used where there are shapes.
        layouts: by input or output, such as ("NHWC", "NCHW"); `ANY_INPUT`: of the only input.
        precision: element types of the only input, as OpenVINO names them: ("u8", "f32").
        color_format: of the only input, as OpenVINO's `ColorFormat` names it: ("BGR", "RGB").
        mean, scale: what is taken from every element of the only input, and what it is then divided
            by; a list has one number per channel, and needs a layout.
        cache_dir: where the compiled model may be kept; "" is nowhere.
    """

    target_device: str = "CPU"
    plugin_config: Mapping[str, str | bool | int | float] = field(default_factory=dict)
    nireq: int = 0
    shapes: Mapping[str, tuple[Dimension, ...] | None] = field(default_factory=dict)
    batch_size: Dimension | None = None
    layouts: Mapping[str, Conversion] = field(default_factory=dict)
    precision: Conversion | None = None
    color_format: Conversion | None = None
    mean: tuple[float, ...] | float | None = None
    scale: tuple[float, ...] | float | None = None
    cache_dir: str = ""
