"""``adapters``: LoRA adapters, with checks that each fits the model.

An adapter on disk is a folder that PEFT wrote, or a safetensors file. The engine silently skips
tensors or whole adapters that do not fit, so everything is checked here, against the layers in the
model's OpenVINO file.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from xml.etree.ElementTree import Element, ParseError, iterparse

import msgspec

from calculators.kit.checkpoints.safetensors_header import NotSafetensors, StoredTensor, read_header
from calculators.kit.examples import find_path
from calculators.llm.engine.settings import NPU, AdapterFile, EngineSettings
from graph_runtime import ResourceError, ResourceSettings
from graph_runtime.errors import did_you_mean
from graphrt_base.regular_file import MODEL_FILE_BYTES, read_regular_file
from protos import messages

MODEL_FILE: Final = "openvino_model.xml"


class AdaptableLayer(NamedTuple):
    """A product with a matrix of weights. ``name``: the file's, which contains the module's."""

    name: str
    inputs: int
    outputs: int


def read_layers(model: Path) -> list[AdaptableLayer]:
    """Return the products of a model with matrices of known sizes. Reads some megabytes.

    Raises:
        ResourceError: the model's file cannot be read.
    """
    found: list[AdaptableLayer] = []
    try:
        for _, element in iterparse(model / MODEL_FILE):
            if element.tag == "layer":
                if element.get("type") == "MatMul":
                    found += _layers_of(element)
                element.clear()
    except (OSError, ParseError) as error:
        raise ResourceError(f"{MODEL_FILE} cannot be read: {error}") from None
    return found


def _layers_of(element: Element) -> Iterable[AdaptableLayer]:
    data, ports = element.find("data"), element.findall("input/port")
    if data is None or len(ports) != 2:
        return
    weights = [int(dim.text or -1) for dim in ports[1].iter("dim")]
    if len(weights) != 2 or min(weights) < 1:
        return
    outputs, inputs = weights if data.get("transpose_b") == "true" else reversed(weights)
    yield AdaptableLayer(element.get("name", ""), inputs, outputs)


_WEIGHTS: Final = "adapter_model.safetensors"
_CONFIG: Final = "adapter_config.json"
_LARGEST: Final = 1e9
#: Members of PEFT's config for features that the engine lacks, with the values that are fine.
_UNSUPPORTED: Final[dict[str, tuple[Any, ...]]] = {
    "peft_type": ("LORA",),
    "bias": (None, "none"),
    "use_dora": (None, False),
    "rank_pattern": (None, {}),
    "alpha_pattern": (None, {}),
    "modules_to_save": (None, []),
}


class FoundAdapter(NamedTuple):
    """An adapter on disk.

    Attributes:
        weights: the file; absolute.
        scale: the factor of its product by its own config; 1 without a config.
        rank: the rank by its config; None without a config.
    """

    weights: Path
    scale: float
    rank: int | None


def find_adapter(path: str, directory: Path) -> FoundAdapter:
    """Find an adapter and read its config.

    Args:
        path: absolute, or relative to ``directory``, the graph's.

    Raises:
        ResourceError: it is missing, or has features that the engine lacks.
    """
    found = find_path(path, directory)
    if found.is_dir():
        return _of_folder(found, path)
    if not found.exists():
        raise ResourceError(
            f'"{path}" does not exist; it is relative to the directory of the graph, or absolute'
        )
    if not found.is_file() or found.suffix != ".safetensors":
        raise ResourceError(
            f'"{path}" is no .safetensors file; give one, or a folder with {_WEIGHTS} and {_CONFIG}'
        )
    return FoundAdapter(found, 1.0, None)


def _of_folder(folder: Path, shown: str) -> FoundAdapter:
    weights = folder / _WEIGHTS
    if not weights.is_file():
        raise ResourceError(f'"{shown}" has no {_WEIGHTS}; PEFT\'s save_pretrained makes it')
    try:
        config = json.loads(read_regular_file(folder / _CONFIG, MODEL_FILE_BYTES))
    except FileNotFoundError:
        raise ResourceError(
            f'"{shown}" has no {_CONFIG}, which says how strong the adapter is; '
            f"PEFT's save_pretrained makes it"
        ) from None
    except (OSError, ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise ResourceError(f'"{shown}": {_CONFIG} is not a JSON object')
    for member, fine in _UNSUPPORTED.items():
        value = config.get(member)
        if value not in fine:
            said = json.dumps(value)
            raise ResourceError(
                f'"{shown}": {_CONFIG} says {member}: {said[:60]}, which the engine does not have; '
                f"it has plain LoRA with one rank and one alpha"
            )
    rank, alpha = _positive(config.get("r")), _positive(config.get("lora_alpha"))
    if rank is None or alpha is None or rank != int(rank):
        raise ResourceError(
            f'"{shown}": {_CONFIG} needs r, a whole number, and lora_alpha, both above 0'
        )
    divisor = math.sqrt(rank) if config.get("use_rslora") else rank
    return FoundAdapter(weights, alpha / divisor, int(rank))


def _positive(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and 0 < value < _LARGEST else None


_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,255}", re.ASCII)
#: Precedes the layer's name in a tensor's name; the engine knows no other prefix.
_PREFIX: Final = "base_model.model."
_TENSOR: Final = re.compile(rf"{re.escape(_PREFIX)}(.+)\.lora_([AB])\.weight")


def with_adapters(
    engine: EngineSettings, options: messages.LLMCalculatorOptions, settings: ResourceSettings
) -> EngineSettings:
    """Return the settings of a node with the adapters of its options, which all fit the model.

    Raises:
        ResourceError: with the adapter's place and name, what is wrong and what would be right.
    """
    if not options.adapters:
        return engine
    _check_engine(engine)
    layers: list[AdaptableLayer] = []
    read: list[AdapterFile] = []
    for number, adapter in enumerate(options.adapters):
        field = f"adapters[{number}]"
        _check_name(adapter.name, field, settings.model_name, read)
        if not 0 < adapter.alpha < math.inf:
            raise ResourceError(
                f"{field}.alpha: {adapter.alpha:g} is not above 0; 1 is as strong as it was trained"
            )
        try:
            found = find_adapter(adapter.path, settings.directory)
            tensors = read_header(found.weights)
        except ResourceError as error:
            raise ResourceError(f"{field}.path: {error}") from None
        except NotSafetensors as error:
            raise ResourceError(f'{field}.path: "{adapter.path}" {error}') from None
        layers = layers or read_layers(Path(engine.model_path))
        _check_fit(f'{field} "{adapter.name}"', found, tensors, layers)
        alpha = adapter.alpha * found.scale
        read.append(AdapterFile(name=adapter.name, path=str(found.weights), alpha=alpha))
    return msgspec.structs.replace(engine, adapters=tuple(read))


def _check_engine(engine: EngineSettings) -> None:
    """Refuse settings that adapters cannot be combined with."""
    if not Path(engine.model_path).is_dir():
        raise ResourceError("adapters: not with a GGUF model; they need an OpenVINO model")
    if not engine.kind.has_adapters:
        raise ResourceError("adapters: not with a model that sees images; they are for text models")
    if NPU in engine.device:
        raise ResourceError(f"adapters: not on device {engine.device}; use CPU or GPU")
    if engine.enable_prefix_caching:
        # Cached blocks are found by their tokens alone.
        raise ResourceError(
            "adapters: not with enable_prefix_caching, which would answer one adapter from what "
            "another has kept; set it to false"
        )


def _check_name(name: str, field: str, graph_name: str, before: Iterable[AdapterFile]) -> None:
    if not _NAME.fullmatch(name):
        raise ResourceError(
            f"{field}.name: {name[:60]!r} is not a name; use letters, digits and . _ : / @ + -, at "
            f"most 256, the first a letter or digit"
        )
    if name == graph_name:
        raise ResourceError(
            f'{field}.name: "{name}" is the name of the graph itself, which answers without an '
            f"adapter; choose another"
        )
    if any(name == each.name for each in before):
        raise ResourceError(f'{field}.name: "{name}" is given twice; each needs a name of its own')


def _check_fit(
    adapter: str,
    found: FoundAdapter,
    tensors: dict[str, StoredTensor],
    layers: Sequence[AdaptableLayer],
) -> None:
    pairs: dict[str, dict[str, StoredTensor]] = {}
    for name, tensor in tensors.items():
        match = _TENSOR.fullmatch(name)
        if match is None:
            raise ResourceError(
                f'{adapter}: its tensor "{name[:120]}" is none that the engine knows; they are '
                f"called {_PREFIX}LAYER.lora_A.weight and .lora_B.weight"
            )
        pairs.setdefault(match[1], {})[match[2]] = tensor
    if not pairs:
        raise ResourceError(f"{adapter}: its file has no tensors")
    matches = _matcher(sorted(pairs), layers)
    for layer, parts in pairs.items():
        if len(parts) < 2:
            missing = "A" if "B" in parts else "B"
            raise ResourceError(f"{adapter}: layer {layer} has no lora_{missing}.weight")
        _check_shapes(f"{adapter}: layer {layer}", parts["A"], parts["B"], found.rank)
        places = matches(layer)
        if not places:
            near = did_you_mean(layer, [_module(each.name) for each in layers])
            raise ResourceError(
                f"{adapter}: the model has no layer {layer}, so it is for another model.{near}"
            )
        for place in places:
            outputs, inputs = parts["B"].shape[0], parts["A"].shape[1]
            if (outputs, inputs) != (place.outputs, place.inputs):
                raise ResourceError(
                    f"{adapter}: layer {layer} has {place.outputs} x {place.inputs} weights in the "
                    f"model, and {outputs} x {inputs} in the adapter, which is for another model"
                )


def _check_shapes(where: str, a: StoredTensor, b: StoredTensor, rank: int | None) -> None:
    if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[0] != b.shape[1] or 0 in a.shape + b.shape:
        raise ResourceError(
            f"{where}: lora_A {list(a.shape)} and lora_B {list(b.shape)} are not a pair; they must "
            f"be [rank, inputs] and [outputs, rank]"
        )
    if a.dtype != b.dtype:
        raise ResourceError(f"{where}: lora_A is {a.dtype} and lora_B {b.dtype}; both must be one")
    if rank is not None and a.shape[0] != rank:
        raise ResourceError(
            f"{where}: its rank is {a.shape[0]}, and adapter_config.json says {rank}"
        )


def _matcher(
    names: Sequence[str], layers: Sequence[AdaptableLayer]
) -> Callable[[str], list[AdaptableLayer]]:
    """Return a function that finds the model's layers that a layer of the adapter changes.

    ``names``: all layers of the adapter, sorted. The engine takes for each layer of the model the
    first name that occurs anywhere in the layer's own name. A layer that the engine would take for
    another one counts as missing.
    """
    taken: dict[str, list[AdaptableLayer]] = {}
    for layer in layers:
        underscored = layer.name.replace(".", "_")
        first = next((name for name in names if name in layer.name or name in underscored), None)
        if first is not None:
            taken.setdefault(first, []).append(layer)

    def find(name: str) -> list[AdaptableLayer]:
        places = taken.get(name, [])
        return places if all(_module(each.name) == name for each in places) else []

    return find


def _module(layer: str) -> str:
    """Return ``model.layers.0.up`` of ``__module.model.layers.0.up/aten::linear``."""
    return layer.partition("/")[0].removeprefix("__module.")
