"""Tags of an inference node's streams, which determine the type of their packets."""

from __future__ import annotations

from types import GenericAlias
from typing import Any, Final

import numpy as np

from graph_runtime import CalculatorContract, GraphConfigError
from graph_runtime.authoring.contract import PacketTypeSet
from graph_runtime.errors import did_you_mean

OPTIONS: Final = "mediapipe.OpenVINOInferenceCalculatorOptions"

#: Tags with these prefixes hold a list of tensors, or one tensor. Any other tag holds one, too.
_LISTS: Final = ("OVTENSORS", "TENSORS", "TFTENSORS")
_SINGLES: Final = ("OVTENSOR", "TENSOR", "TFTENSOR")
_TFLITE: Final = "TFLITE_TENSOR"

_TENSOR: Final[Any] = np.ndarray
_TENSORS: Final[Any] = GenericAlias(list, (np.ndarray,))


def holds_list(tag: str) -> bool:
    """True if packets under this tag are lists of tensors."""
    return tag.startswith(_LISTS)


def declare_tensors(contract: CalculatorContract, direction: str) -> None:
    """Declare the streams of one side, and check the options about it.

    ``direction`` is "input" or "output".

    Raises:
        GraphConfigError: OpenVINO Model Server refuses the options, or they cannot be intended.
    """
    streams: PacketTypeSet = getattr(contract, f"{direction}s")
    options = contract.options(OPTIONS)
    names_field, order_field = f"tag_to_{direction}_tensor_names", f"{direction}_order_list"
    names, order = dict(getattr(options, names_field)), list(getattr(options, order_field))
    contract.require(len(streams) > 0, f"it needs an {direction} stream for tensors")
    for tag, index in streams:
        contract.require(
            index == 0,
            f'two {direction} streams have the tag "{tag}"; each needs its own, such as OVTENSOR1',
        )
        contract.require(
            not tag.startswith(_TFLITE),
            f'the tag "{tag}" stands for structures of TensorFlow Lite, which are not supported; '
            f"with OVTENSOR or OVTENSORS packets are NumPy arrays or lists of them",
        )
        streams[tag, index].set(_TENSORS if holds_list(tag) else _TENSOR)
    tags = streams.tags()
    contract.require(
        not (names and order), f"{names_field} and {order_field} exclude each other; use one"
    )
    contract.require(
        not order or any(map(holds_list, tags)),
        f"{order_field} is for streams that hold lists, with a tag such as OVTENSORS; "
        f"the {direction} streams have the tags {_shown(tags)}",
    )
    twice = next((name for name in order if order.count(name) > 1), None)
    contract.require(twice is None, f'{order_field}: "{twice}" is there twice')
    for key in names:
        if key not in tags and not _has_kind_of(key, tags):
            raise GraphConfigError(
                f'{names_field}: no {direction} stream has the tag "{key}"; there are '
                f"{_shown(tags)}.{did_you_mean(key, tags)}"
            )


def _has_kind_of(key: str, tags: list[str]) -> bool:
    """True if a stream has a tag of the key's kind: OpenVINO Model Server ignores such a key."""
    kind = _kind(key)
    return bool(kind) and kind in map(_kind, tags)


def _kind(tag: str) -> str:
    return next((kind for kind in (*_LISTS, *_SINGLES) if tag.startswith(kind)), "")


def _shown(tags: list[str]) -> str:
    return ", ".join(tag or "(none)" for tag in tags)
