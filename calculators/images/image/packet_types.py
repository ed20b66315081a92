"""The types of packets in image graphs, and the refusal of GPU tags by nodes on the CPU."""

from __future__ import annotations

from functools import cache
from types import GenericAlias
from typing import Any, Final

import numpy as np

from calculators.images.image.image_frame import ImageFrame
from graph_runtime import CalculatorContract
from protos.pool import message_class

#: A list of arrays, under the tag TENSORS.
TENSORS: Final[Any] = GenericAlias(list, (np.ndarray,))

#: left, top, right, bottom, in fractions of the padded image: a tuple of four floats.
LETTERBOX_PADDING: Final[Any] = tuple


@cache
def message_type(name: str) -> Any:
    """Return the class of ``mediapipe.NAME``."""
    return message_class(f"mediapipe.{name}")


def list_of(name: str) -> Any:
    """Return the type of lists of ``mediapipe.NAME`` messages."""
    return GenericAlias(list, (message_type(name),))


def take_images(contract: CalculatorContract) -> None:
    """Declare one input of images, under the tag IMAGE or IMAGE_CPU."""
    check_image_tags(contract)
    tags = ("IMAGE", "IMAGE_CPU")
    contract.require(
        sum(map(contract.inputs.has_tag, tags)) == 1,
        "exactly one of the input streams IMAGE and IMAGE_CPU is needed",
    )
    for tag in tags:
        contract.inputs[tag].set(ImageFrame).optional()


#: Tags of images in graphs of older versions of MediaPipe.
_FORMER_TAGS: Final = frozenset({"INPUT_FRAME", "OUTPUT_FRAME"})


def check_image_tags(contract: CalculatorContract) -> None:
    """Refuse the tags of images on a GPU, and the tags of older versions."""
    for kind, ports in (("input", contract.inputs), ("output", contract.outputs)):
        tags = ports.tags()
        for tag in tags:
            meant = tag.removesuffix("_GPU")
            contract.require(
                meant == tag,
                f"the {kind} stream with the tag {tag} would be on a GPU, which is not supported; "
                + (
                    f"remove it, the tag {meant} is there"
                    if meant in tags
                    else f"use the tag {meant}"
                ),
            )
            contract.require(
                tag not in _FORMER_TAGS,
                f"the tag {tag} of the {kind} stream is called IMAGE now",
            )
