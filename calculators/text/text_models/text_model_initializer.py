"""`TextModelInitializer`: the resource initializer of a family of encoder models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from calculators.kit.model_cache import CacheEntry, ModelCache
from calculators.kit.model_initializer import ModelInitializer, ModelResource, model_identity
from calculators.text.text_models.model_options import TextModelOptions, compiled_entry


class TextOptions(Protocol):
    """The options of a node with an encoder model.

    Attributes:
        model: the model, and how it is computed.
        head: the settings of its head, a part of what is compiled.
    """

    @property
    def model(self) -> TextModelOptions: ...

    @property
    def head(self) -> Mapping[str, Any]: ...


Options = TypeVar("Options", bound=TextOptions)
Resource = TypeVar("Resource", bound=ModelResource)


class TextModelInitializer(ModelInitializer[Options, Resource]):
    """Nodes share a model with the same head; all other options are their own."""

    def hold(self, options: Options, cache: ModelCache) -> CacheEntry | None:
        return compiled_entry(options.model, cache, options.head)

    def paths(self, options: Options) -> tuple[Path, ...]:
        return (options.model.directory,)

    def made_of(self, options: Options) -> str | None:
        return model_identity(options.model, options.head, paths=self.paths(options))
