"""LoRA adapters, as the model library takes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import openvino
import openvino_genai as genai
from numpy.typing import NDArray

from calculators.kit.checkpoints.safetensors_header import StoredTensor, read_header
from calculators.llm.engine.engine_settings import AdapterFile

_UNSIGNED: Final = {2: np.uint16, 4: np.uint32}
_A: Final = ".lora_A.weight"
#: Alignment of the first tensor, in bytes.
_ALIGNMENT: Final = 8

Tensors = dict[str, NDArray[Any]]


class Adapters:
    """The adapters of one pipeline: properties to open it with, and the config of each adapter.

    All adapters get the same layers and the same rank, padded with zeros, and "no adapter" is an
    adapter of zeros. So no shape ever changes: where a layer goes from an adapter's rank to none
    and back, a CPU can compute nonsense from then on (openvino 2026.4).
    """

    def __init__(self, files: Sequence[AdapterFile]) -> None:
        """Read the files.

        Raises:
            NotSafetensors, OSError: a file has changed since it was checked.
            RuntimeError: the library refuses an adapter.
        """
        self.names = tuple(file.name for file in files)
        self.properties: dict[str, Any] = {}
        self._configs: dict[str, Any] = {}
        if not files:
            return
        headers = [read_header(Path(file.path)) for file in files]
        form = _common_form(headers)
        wanted = next(iter(form.values())).dtype
        none = genai.Adapter(_as_safetensors(form, {}))
        self.properties["adapters"] = self._configs[""] = genai.AdapterConfig([none])
        for file, header in zip(files, headers, strict=True):
            tensors = _read(Path(file.path), header, wanted)
            adapter = genai.Adapter(_as_safetensors(form, tensors))
            self._configs[file.name] = genai.AdapterConfig([(adapter, file.alpha)])

    def apply_to(self, config: Any, name: str) -> None:
        """Set the adapter of a ``GenerationConfig`` by its name; "" is none."""
        if self._configs:
            config.adapters = self._configs[name]


def _common_form(headers: Sequence[Mapping[str, StoredTensor]]) -> dict[str, StoredTensor]:
    """Return all tensors of all files, at the highest rank and in a type that holds every value."""
    rank = max(each.shape[0] for header in headers for n, each in header.items() if n.endswith(_A))
    types = {each.dtype for header in headers for each in header.values()}
    dtype = types.pop() if len(types) == 1 else "F32"
    found: dict[str, StoredTensor] = {}
    for header in headers:
        for name, each in header.items():
            shape = (rank, each.shape[1]) if name.endswith(_A) else (each.shape[0], rank)
            found[name] = StoredTensor(dtype, shape, 0)
    return dict(sorted(found.items()))


def _read(path: Path, header: Mapping[str, StoredTensor], wanted: str) -> Tensors:
    """Read a file's tensors as the bits of numbers of type ``wanted``; ``[rows, columns]``."""
    content = path.read_bytes()
    found: Tensors = {}
    for name, each in header.items():
        rows, columns = each.shape
        stored = np.dtype(_UNSIGNED[each.element_size])
        bits = np.frombuffer(content, stored, rows * columns, each.place).reshape(rows, columns)
        if each.dtype != wanted:  # F32, which holds them all
            is_half = each.dtype == "F16"
            bits = (
                bits.view(np.float16).astype(np.float32).view(np.uint32)
                if is_half
                else bits.astype(np.uint32) << np.uint32(16)
            )
        found[name] = bits
    return found


def _as_safetensors(form: Mapping[str, StoredTensor], tensors: Tensors) -> Any:
    """Write a file of the given form: each tensor in its upper left corner, zeros elsewhere."""
    header: dict[str, Any] = {}
    end = 0
    for name, each in form.items():
        begin, end = end, end + each.shape[0] * each.shape[1] * each.element_size
        header[name] = {"dtype": each.dtype, "shape": each.shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    prefix = len(text).to_bytes(8, "little") + text
    content = np.zeros(len(prefix) + end, np.uint8)
    content[: len(prefix)] = np.frombuffer(prefix, np.uint8)
    for name, bits in tensors.items():
        begin, end = (len(prefix) + place for place in header[name]["data_offsets"])
        whole = content[begin:end].view(bits.dtype).reshape(form[name].shape)
        whole[: bits.shape[0], : bits.shape[1]] = bits
    # The library keeps the tensor, and with it a copy of the bytes.
    return openvino.Tensor(content)
