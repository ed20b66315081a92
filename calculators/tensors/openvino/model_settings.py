"""`ModelSettings`: the settings of a model that a configuration can have.

The configuration is read in processes that load no model, so this module imports nothing slow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias


class Dimension(NamedTuple):
    """The allowed lengths of an axis: ``low`` to ``high``; None is no limit."""

    low: int
    high: int | None

    def __str__(self) -> str:
        if self.high is None:
            return "?" if self.low == 0 else f"{self.low}.."
        return str(self.low) if self.low == self.high else f"{self.low}..{self.high}"

    def allows(self, length: int) -> bool:
        """Return True if an axis may have this length."""
        return self.low <= length and (self.high is None or length <= self.high)


#: The key of a setting that names no tensor: it applies to every input, or to the only one.
ANY_INPUT: Final = ""

ANY_LENGTH: Final = Dimension(0, None)

#: The layout that clients send, and the one that the model takes.
Conversion: TypeAlias = tuple[str, str]

#: The library of operations that comes with a package, by its short name.
TOKENIZERS: Final = "openvino_tokenizers"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Changes to a model before it is compiled, and the way it is run.

    Changes are made in this order: layouts and precisions, then shapes, or the batch.

    Attributes:
        target_device: as OpenVINO names it.
        plugin_config: OpenVINO's properties.
        nireq: number of infer requests, that is of inferences at a time; 0 is the number that
            OpenVINO recommends.
        shapes: by input; None allows any length of every axis. `ANY_INPUT` is the only input, or
            with None all inputs.
        batch_size: length of the axis N of every input, the first axis unless a layout names
            another. Ignored if there are shapes.
        layouts: by input or output, such as ("NHWC", "NCHW"); `ANY_INPUT`: of the only input.
        precision: element types of the only input, as OpenVINO names them: ("u8", "f32").
        color_format: of the only input, as OpenVINO's `ColorFormat` names it: ("BGR", "RGB").
        mean, scale: subtracted from every element of the only input, which is then divided by the
            scale. A list has one number per channel, and needs a layout.
        cache_dir: directory for compiled models; "" for none.
        cache_bytes: the most bytes that it may hold; 0: no bound.
        extension: a library of operations that the model may have; "" for none.
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
    cache_bytes: int = 0
    extension: str = ""
