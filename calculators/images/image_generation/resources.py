"""`ImageGenResourceInitializer`: fills ``IMAGE_GEN_NODE_RESOURCES``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from calculators.images.image_generation.image_settings import ImageSettings
from calculators.images.image_generation.node_options import ImageGenOptions, read_image_gen_options
from calculators.images.image_generation.servable import ImageGenServable
from calculators.kit.model_cache import CacheEntry, ModelCache, hold_compiled
from calculators.kit.model_initializer import ModelHost, ModelInitializer
from graph_runtime import NodePlan, ResourceSettings

RESOURCES_TAG: Final = "IMAGE_GEN_NODE_RESOURCES"


class ImageGenResourceInitializer(ModelInitializer[ImageGenOptions, ImageGenServable]):
    """Loads the model of every node that draws."""

    tag = RESOURCES_TAG
    family = "image_generation"
    calculators = ("ImageGenCalculator", "ImageGenerationCalculator")

    def read(self, node: NodePlan, settings: ResourceSettings) -> ImageGenOptions:
        return read_image_gen_options(node, settings)

    def warnings(self, options: ImageGenOptions) -> Sequence[str]:
        return options.warnings

    def hold(self, options: ImageGenOptions, cache: ModelCache) -> CacheEntry | None:
        if options.loras.adapters:
            return None
        files = [
            file
            for file in sorted(options.directory.glob("*/openvino_*"))
            if file.suffix in (".xml", ".bin")
        ]
        device = " ".join(options.devices)
        return hold_compiled(cache, files, device, options.properties, options.static)

    def resource(
        self, options: ImageGenOptions, host: ModelHost, settings: ResourceSettings
    ) -> ImageGenServable:
        return ImageGenServable(options, host, settings.of(ImageSettings))

    def paths(self, options: ImageGenOptions) -> tuple[Path, ...]:
        return (options.directory, *(adapter.path for adapter in options.loras.adapters))
