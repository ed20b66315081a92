"""An image node's options, checked: `ImageGenCalculatorOptions`.

Names, defaults, meaning and texts are OpenVINO Model Server's (``image_gen/imagegen_init.cpp``).

A model may have LoRA adapters. The alpha of an adapter, its strength in a request, is the first of
these that is given: the request's ``lora_alphas``, that of the component of a composite, that of
the adapter, 1. Adapters that the request's model does not name have alpha 0. Rules and texts are
OpenVINO Model Server's (``image_gen/http_image_gen_calculator.cc``, ``imagegen_init.cpp``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from calculators.images.image_generation.lora_names import ALIAS_RULE, ENDING, is_alias
from calculators.images.image_generation.model_directory import MODEL_INDEX
from calculators.images.image_generation.sizes import (
    MAX_PIXELS,
    SIDE_STEP,
    Size,
    listed,
    parse_size,
)
from calculators.kit.device_options import device_problem, read_json_properties
from calculators.kit.examples import find_path
from calculators.kit.machine import has_slow_bfloat16
from calculators.kit.requests.fields import describe
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.tasks.nodes import find_model_options, naming_node
from graph_runtime import NodePlan, ResourceError, ResourceSettings
from protos import messages


class LoraMode(StrEnum):
    """The way in which adapters are joined with the model's weights.

    DYNAMIC: requests choose alphas. STATIC: alphas are fixed when the model is compiled. FUSE: the
    adapters become a part of the weights.
    """

    DYNAMIC = "DYNAMIC"
    STATIC = "STATIC"
    FUSE = "FUSE"


#: The modes by their numbers in the options.
_MODES: Final = (LoraMode.DYNAMIC, LoraMode.STATIC, LoraMode.FUSE)
#: A larger alpha, positive or negative, only destroys images.
_LARGEST: Final = 100


@dataclass(frozen=True, slots=True)
class LoraAdapter:
    """An adapter's file. ``alias``: the model's name in requests; ``path``: absolute."""

    alias: str
    path: Path
    alpha: float


@dataclass(frozen=True, slots=True)
class LoraAdapters:
    """The adapters of a node.

    Attributes:
        mode: of all of them; the library has one mode for a model.
        composites: alphas by alias of the adapter, by alias of the composite.
    """

    adapters: tuple[LoraAdapter, ...] = ()
    mode: LoraMode = LoraMode.DYNAMIC
    composites: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of models that the adapters add."""
        return (*(each.alias for each in self.adapters), *self.composites)

    @property
    def are_dynamic(self) -> bool:
        """True if requests choose alphas."""
        return bool(self.adapters) and self.mode is LoraMode.DYNAMIC

    def alphas(self, model: str, wanted: Mapping[str, Any] | None) -> list[float]:
        """Return the alpha of each adapter for a request; [] unless they are dynamic.

        Args:
            model: the model that the request names: an adapter, a composite, or the base model.
            wanted: ``lora_alphas`` of the request.

        Raises:
            RequestError: ``wanted`` has other names, or values that are not numbers.
        """
        if not self.are_dynamic:
            if wanted:
                raise _refused(
                    "lora_alphas is not supported when no dynamic LoRA adapters are available. "
                    "Alpha values cannot be overridden for STATIC (NPU) or FUSE mode adapters."
                )
            return []
        found = dict.fromkeys((each.alias for each in self.adapters), 0.0)
        target = next((each for each in self.adapters if each.alias == model), None)
        if target is not None:
            found[target.alias] = target.alpha
        elif model in self.composites:
            found.update(self.composites[model])
        for name, value in (wanted or {}).items():
            if target is not None and name != target.alias:
                raise _refused(
                    f"lora_alphas key '{name}' not allowed when targeting adapter '{model}'"
                )
            if model in self.composites and name not in self.composites[model]:
                raise _refused(f"lora_alphas key '{name}' is not part of composite '{model}'")
            if name not in found:
                known = ", ".join(found)
                raise _refused(f"lora_alphas key '{name}' is not an adapter; there are: {known}")
            found[name] = _alpha(name, value)
        return list(found.values())


def _alpha(name: str, value: object) -> float:
    if type(value) not in (int, float):
        raise _refused(
            f"lora_alphas value for '{name}' must be a number, and not {describe(value)}"
        )
    assert isinstance(value, int | float)
    if not abs(value) <= _LARGEST:
        raise _refused(f"lora_alphas value for '{name}' must be from -{_LARGEST} to {_LARGEST}")
    return float(value)


def _refused(text: str) -> RequestError:
    return RequestError(text, param="lora_alphas", detail="lora_alphas")


def read_loras(
    options: messages.ImageGenCalculatorOptions, directory: Path, *, model: str, is_npu: bool
) -> LoraAdapters:
    """Check the adapters of a node's options.

    Args:
        options: an ``ImageGenCalculatorOptions``.
        directory: the graph's, at which relative paths start.
        model: the name of the graph, which no adapter may have.
        is_npu: the model is compiled for an NPU, where adapters are static.

    Raises:
        ResourceError: with the field, what is wrong, and what would be right.
    """
    adapters: list[LoraAdapter] = []
    modes: list[LoraMode] = []
    for number, each in enumerate(options.lora_adapters):
        place = f"lora_adapters[{number}]"
        _check_alias(each.alias, place, model, [known.alias for known in adapters])
        _check_alpha(each.alpha, place)
        adapters.append(LoraAdapter(each.alias, _file(each.path, place, directory), each.alpha))
        modes.append(_MODES[each.mode])
    if len(set(modes)) > 1:
        said = ", ".join(sorted(set(modes)))
        raise ResourceError(f"lora_adapters: all need the same mode, and they have {said}")
    mode = modes[0] if modes else LoraMode.DYNAMIC
    if is_npu and mode is LoraMode.DYNAMIC:
        mode = LoraMode.STATIC
    composites: dict[str, dict[str, float]] = {}
    for number, composite in enumerate(options.composite_lora_adapters):
        place = f"composite_lora_adapters[{number}]"
        names = [*(known.alias for known in adapters), *composites]
        _check_alias(composite.alias, place, model, names)
        if mode is not LoraMode.DYNAMIC:
            raise ResourceError(f"{place}: composites need adapters with mode: DYNAMIC")
        composites[composite.alias] = _components(
            composite, place, [known.alias for known in adapters]
        )
    return LoraAdapters(tuple(adapters), mode, composites)


def _components(composite: Any, place: str, aliases: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for number, each in enumerate(composite.components):
        where = f"{place}.components[{number}]"
        if each.adapter_alias not in aliases:
            known = ", ".join(aliases) or "none"
            raise ResourceError(
                f"{where}: Composite LoRA references unknown adapter '{each.adapter_alias}' in "
                f"entry: '{composite.alias}'; there are: {known}"
            )
        if each.adapter_alias in found:
            raise ResourceError(f'{where}: "{each.adapter_alias}" is given twice')
        _check_alpha(each.alpha, where)
        found[each.adapter_alias] = each.alpha
    if not found:
        raise ResourceError(f"{place}: it has no components; each names an adapter_alias")
    return found


def _check_alias(alias: str, place: str, model: str, before: Sequence[str]) -> None:
    if not is_alias(alias):
        raise ResourceError(f"{place}: Invalid LoRA alias '{alias[:60]}'. {ALIAS_RULE}")
    if alias == model:
        raise ResourceError(
            f'{place}: the alias "{alias}" is the name of the model itself, which answers without '
            "adapters; choose another"
        )
    if alias in before:
        raise ResourceError(f'{place}: the alias "{alias}" is given twice; each needs its own')


def _check_alpha(alpha: float, place: str) -> None:
    if not math.isfinite(alpha):
        raise ResourceError(f"{place}: alpha is {alpha}; a number is needed")


def _file(path: str, place: str, directory: Path) -> Path:
    file = find_path(path, directory)
    if not file.is_file():
        raise ResourceError(
            f'{place}: the file "{path}" does not exist; paths are relative to the directory of '
            "the graph, or absolute"
        )
    if file.suffix != ENDING:
        raise ResourceError(f'{place}: the file "{path}" is not a {ENDING} file')
    return file


OPTIONS_TYPE = messages.ImageGenCalculatorOptions

_PRECISION: Final = "INFERENCE_PRECISION_HINT"
#: Most numbers of images and steps; more is a mistake.
_MOST: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticShape:
    """The only shape that a model is compiled for.

    Attributes:
        images: images of one request.
        guidance_scale: of every request; None: the model's own default.
    """

    size: Size
    images: int
    guidance_scale: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageGenOptions:
    """The options of one node.

    Attributes:
        directory: the model's directory, absolute.
        devices: one for all parts, or one each for text encoders, denoiser and image coder.
        properties: OpenVINO's properties.
        largest: the longest sides of an image.
        default_size: the size of requests that give none; None leaves it to model or image.
        sizes: the only sizes that requests may have; empty: any up to ``largest``.
        static: the shape that the model is compiled for; None: any.
        max_images: images of one request.
        default_steps, max_steps: steps of denoising.
        warnings: texts for the log.
    """

    directory: Path
    devices: tuple[str, ...]
    properties: Mapping[str, Any]
    largest: Size
    default_size: Size | None
    sizes: tuple[Size, ...]
    static: StaticShape | None
    max_images: int
    default_steps: int
    max_steps: int
    loras: LoraAdapters
    warnings: tuple[str, ...] = ()


def read_image_gen_options(node: NodePlan, settings: ResourceSettings) -> ImageGenOptions:
    """Check the options of a node, and the files that they name.

    Raises:
        ResourceError: with the node's name, the field, what is wrong, and what would be right.
    """
    with naming_node(node):
        return _read(find_model_options(node, OPTIONS_TYPE), settings)


def _read(
    options: messages.ImageGenCalculatorOptions, settings: ResourceSettings
) -> ImageGenOptions:
    directory = _directory(options.models_path, settings.directory)
    devices = _devices(options.device) if options.HasField("device") else ("CPU",)
    is_npu = any("NPU" in device for device in devices)
    sizes = _sizes(options.resolution) if options.HasField("resolution") else ()
    static = _static_shape(options, sizes, is_npu=is_npu)
    largest = _size(options.max_resolution, "max_resolution")
    if sizes:
        largest = Size(max(each.width for each in sizes), max(each.height for each in sizes))
    properties = read_json_properties(options.plugin_config)
    if has_slow_bfloat16() and set(devices) == {"CPU"}:
        properties.setdefault(_PRECISION, "f32")
    default_size = _default_size(options, largest, sizes)
    warnings: list[str] = []
    max_steps = _count(options, "max_num_inference_steps")
    default_steps = _count(options, "default_num_inference_steps")
    if default_steps > max_steps:
        if options.HasField("default_num_inference_steps"):
            warnings.append(
                f"default_num_inference_steps: {default_steps} is above max_num_inference_steps: "
                f"{max_steps}, which is taken"
            )
        default_steps = max_steps
    return ImageGenOptions(
        directory=directory,
        devices=devices,
        properties=properties,
        largest=largest,
        default_size=default_size,
        sizes=sizes,
        static=static,
        max_images=static.images if static else _count(options, "max_num_images_per_prompt"),
        default_steps=default_steps,
        max_steps=max_steps,
        loras=read_loras(options, settings.directory, model=settings.model_name, is_npu=is_npu),
        warnings=tuple(warnings),
    )


def _directory(models_path: str, graph: Path) -> Path:
    directory = find_path(models_path, graph)
    if not directory.is_dir():
        raise ResourceError(
            f"Models path does not exist: {models_path} (models_path is relative to the directory "
            "of the graph, or absolute)"
        )
    if not (directory / MODEL_INDEX).is_file():
        raise ResourceError(
            f'models_path: "{models_path}" has no {MODEL_INDEX}; optimum-cli export openvino '
            "--task text-to-image makes it"
        )
    return directory


def _devices(text: str) -> tuple[str, ...]:
    devices = tuple(text.split())
    if len(devices) not in (1, 3):
        raise ResourceError(
            f"device: Invalid number of devices specified: {len(devices)}. Expected 1 or 3."
        )
    for device in devices:
        if problem := device_problem(device):
            raise ResourceError(f"device: {problem}")
    return devices


def _size(text: str, field: str) -> Size:
    try:
        size = parse_size(text)
    except ValueError as error:
        raise ResourceError(f'{field}: "{text[:60]}": {error}') from None
    if size is None:
        raise ResourceError(f'{field}: "auto" is no size; write it as 1024x1024')
    return size


def _drawable(text: str, field: str) -> Size:
    size = _size(text, field)
    if not size.is_drawable:
        raise ResourceError(
            f"{field}: {size}: the sides of images are multiples of {SIDE_STEP} pixels"
        )
    return size


def _sizes(text: str) -> tuple[Size, ...]:
    sizes = tuple(_drawable(word, "resolution") for word in text.split())
    if not sizes:
        raise ResourceError("resolution: No valid resolutions found")
    for size in sizes:
        if size.width * size.height > MAX_PIXELS:
            raise ResourceError(
                f"resolution: {size} has more than {MAX_PIXELS} pixels, the most of one image"
            )
    if len(set(sizes)) < len(sizes):
        raise ResourceError("resolution: Duplicate resolutions found")
    return sizes


def _static_shape(
    options: messages.ImageGenCalculatorOptions, sizes: tuple[Size, ...], *, is_npu: bool
) -> StaticShape | None:
    has_images = options.HasField("num_images_per_prompt")
    has_guidance = options.HasField("guidance_scale")
    if not sizes:
        if is_npu:
            raise ResourceError("Cannot use NPU without setting static resolution")
        if has_guidance:
            raise ResourceError(
                "Cannot explicitly use static guidance scale when not using static resolution"
            )
        if has_images:
            raise ResourceError(
                "Cannot explicitly use static num images per prompt when not using static "
                "resolution"
            )
        return None
    if options.HasField("max_resolution"):
        raise ResourceError("Cannot explicitly use max resolution when using static settings")
    if len(sizes) > 1:
        if is_npu:
            raise ResourceError("NPU cannot have multiple resolutions in static settings")
        if has_images:
            raise ResourceError("Cannot use static num images per prompt with multiple resolutions")
        if has_guidance:
            raise ResourceError("Cannot use static guidance scale with multiple resolutions")
        return None
    if options.HasField("max_num_images_per_prompt"):
        raise ResourceError(
            "Cannot explicitly use max num images per prompt when using static settings"
        )
    images = options.num_images_per_prompt if has_images else 1
    if not 0 < images <= _MOST:
        raise ResourceError("num_images_per_prompt must be greater than 0")
    guidance = options.guidance_scale if has_guidance else None
    if guidance is not None and not 0 <= guidance < float("inf"):
        raise ResourceError(f"guidance_scale: {guidance} is not a number from 0 on")
    return StaticShape(size=sizes[0], images=images, guidance_scale=guidance)


def _default_size(
    options: messages.ImageGenCalculatorOptions, largest: Size, sizes: tuple[Size, ...]
) -> Size | None:
    if not options.HasField("default_resolution"):
        return sizes[0] if len(sizes) == 1 else None
    size = _drawable(options.default_resolution, "default_resolution")
    if not size.fits(largest) and not sizes:
        raise ResourceError(
            f"Default resolution exceeds maximum allowed resolution: ({size}) > ({largest})"
        )
    if sizes and size not in sizes:
        raise ResourceError(
            f"Default resolution ({size}) is not among the static resolutions: {listed(sizes)}"
        )
    return size


def _count(options: messages.ImageGenCalculatorOptions, field: str) -> int:
    value: int = getattr(options, field)
    if not value:
        raise ResourceError(f"{field} must be greater than 0")
    return min(value, _MOST)
