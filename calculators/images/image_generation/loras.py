"""LoRA adapters of an image model: their names, and how strong each one is in a request.

The alpha of an adapter is the first of these that is given: the request's ``lora_alphas``, that of
the component of a composite, that of the adapter, 1. Adapters that the request's model does not
name have alpha 0. Rules and texts are those of OpenVINO Model Server
(``image_gen/http_image_gen_calculator.cc``, ``imagegen_init.cpp``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from calculators.images.image_generation.lora_names import ALIAS_RULE, ENDING, is_alias
from calculators.kit.requests.fields import describe
from calculators.kit.requests.http_payload import RequestError
from graph_runtime import ResourceError


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
            RequestError: ``wanted`` has other names, or values that are no numbers.
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
                raise _refused(f"lora_alphas key '{name}' is no adapter; there are: {known}")
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


def read_loras(options: Any, directory: Path, *, model: str, is_npu: bool) -> LoraAdapters:
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
    for number, each in enumerate(options.composite_lora_adapters):
        place = f"composite_lora_adapters[{number}]"
        names = [*(known.alias for known in adapters), *composites]
        _check_alias(each.alias, place, model, names)
        if mode is not LoraMode.DYNAMIC:
            raise ResourceError(f"{place}: composites need adapters with mode: DYNAMIC")
        composites[each.alias] = _components(each, place, [known.alias for known in adapters])
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
    file = Path(directory, path).absolute()
    if not file.is_file():
        raise ResourceError(
            f'{place}: the file "{path}" does not exist; paths are relative to the directory of '
            "the graph, or absolute"
        )
    if file.suffix != ENDING:
        raise ResourceError(f'{place}: the file "{path}" is no {ENDING} file')
    return file
