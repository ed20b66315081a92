"""`T2sResourceInitializer`: fills ``TTS_NODE_RESOURCES``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from calculators.kit.model_cache import CacheEntry, ModelCache, hold_compiled
from calculators.kit.model_initializer import ModelHost, ModelInitializer
from calculators.speech.text_to_speech.node_options import T2sOptions, read_t2s_options
from calculators.speech.text_to_speech.servable import T2sServable
from graph_runtime import NodePlan, ResourceSettings

RESOURCES_TAG: Final = "TTS_NODE_RESOURCES"


class T2sResourceInitializer(ModelInitializer[T2sOptions, T2sServable]):
    """Loads the model of every node that speaks."""

    tag = RESOURCES_TAG
    family = "text_to_speech"
    calculators = ("T2sCalculator", "TextToSpeechCalculator")

    def read(self, node: NodePlan, settings: ResourceSettings) -> T2sOptions:
        return read_t2s_options(node, settings)

    def warnings(self, options: T2sOptions) -> Sequence[str]:
        return options.warnings

    def hold(self, options: T2sOptions, cache: ModelCache) -> CacheEntry | None:
        endings = ("xml", "bin")
        files = sorted(
            file for ending in endings for file in options.directory.glob(f"openvino_*.{ending}")
        )
        return hold_compiled(cache, files, options.device, options.properties)

    def resource(
        self, options: T2sOptions, host: ModelHost, settings: ResourceSettings
    ) -> T2sServable:
        return T2sServable(options, host)

    def paths(self, options: T2sOptions) -> tuple[Path, ...]:
        return (options.directory, *options.voices.values())
