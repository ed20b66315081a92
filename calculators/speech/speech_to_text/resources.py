"""`SpeechToTextResourceInitializer`: makes the side packet ``STT_NODE_RESOURCES``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from calculators.kit.model_cache import CacheEntry, ModelCache, hold_compiled
from calculators.kit.model_initializer import ModelHost, ModelInitializer
from calculators.speech.speech_to_text.node_options import SpeechToTextOptions, read_speech_options
from calculators.speech.speech_to_text.placed_speech import AnySpeechToText, PlacedSpeechToText
from calculators.speech.speech_to_text.servable import SpeechToTextServable
from graph_runtime import NodePlan, ResourceSettings

RESOURCES_TAG: Final = "STT_NODE_RESOURCES"
CALCULATORS: Final = ("S2tCalculator", "SpeechToTextCalculator")


class SpeechToTextResourceInitializer(ModelInitializer[SpeechToTextOptions, AnySpeechToText]):
    """Loads the model of every node of the two calculators for speech."""

    tag = RESOURCES_TAG
    family = "speech_to_text"
    calculators = CALCULATORS

    def read(self, node: NodePlan, settings: ResourceSettings) -> SpeechToTextOptions:
        return read_speech_options(node, settings)

    def hold(self, options: SpeechToTextOptions, cache: ModelCache) -> CacheEntry | None:
        files = sorted(
            file
            for ending in ("xml", "bin")
            for file in options.directory.glob(f"openvino_*.{ending}")
            if file.is_file()
        )
        words = options.finds_words
        return hold_compiled(cache, files, options.device, options.properties, words)

    def resource(
        self, options: SpeechToTextOptions, host: ModelHost, settings: ResourceSettings
    ) -> AnySpeechToText:
        if host.place is not None:
            return PlacedSpeechToText(options, host.place)
        return SpeechToTextServable(options, host)

    def paths(self, options: SpeechToTextOptions) -> tuple[Path, ...]:
        return (options.directory,)
