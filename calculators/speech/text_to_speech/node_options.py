"""The options of a text-to-speech node, checked: `T2sCalculatorOptions`.

Names, defaults and texts are OpenVINO Model Server's (``audio/text_to_speech/t2s_servable.cpp``).
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

from calculators.kit.device_options import read_device
from calculators.kit.model_directory import find_model_directory, read_checked_json
from calculators.kit.tasks.model_config import find_piper_voice
from calculators.kit.tasks.nodes import find_model_options, naming_node
from calculators.speech.text_to_speech.messages import BEGIN, END, PAD, PiperSettings
from graph_runtime import NodePlan, ResourceError, ResourceSettings
from protos import messages

OPTIONS_TYPE = messages.T2sCalculatorOptions

_FLOAT_BYTES: Final = 4
#: Bytes of a voice's file; Kokoro's have half a megabyte.
_VOICE_BYTES: Final = 16 << 20
_SPEECHT5: Final = "SpeechT5ForTextToSpeech"
_SPEECHT5_FILES: Final = (
    "openvino_encoder_model",
    "openvino_decoder_model",
    "openvino_postnet",
    "openvino_vocoder",
    "openvino_tokenizer",
)
#: SpeechT5's own limits, where config.json does not have them.
_TEXT_POSITIONS: Final = 600
_SPEECH_POSITIONS: Final = 1876
#: Frames that SpeechT5 makes for a token at most, and those that it makes in one step.
_FRAMES_OF_TOKEN: Final = 20
_FRAMES_OF_STEP: Final = 2
#: Characters of a text for Kokoro, whose 510 phonemes of a call are about as many characters. The
#: library would cut a longer text between any two words.
_KOKORO_CHARACTERS: Final = 400
#: Characters of a text for Piper, whose memory grows with the longest text.
_PIPER_CHARACTERS: Final = 400
#: After 60 sentences a process has 1.0 GiB with so few kernels, as fast as with OpenVINO's 5,000,
#: with which it has 1.6 GiB and grows on (voice joe, OpenVINO 2026.4).
_PIPER_KERNELS: Final = 16
#: Dictionaries of English for Kokoro, in the folder ``data`` of the model or in `DATA_VARIABLE`.
DICTIONARIES: Final = ("us_gold.json", "us_silver.json", "gb_gold.json", "gb_silver.json")
DATA_VARIABLE: Final = "MISAKI_DATA_DIR"


class ModelKind(Enum):
    """The families of models that can be spoken with: OpenVINO GenAI's, and Piper."""

    SPEECHT5 = "SpeechT5"
    KOKORO = "Kokoro"
    PIPER = "Piper"

    @property
    def has_own_voice(self) -> bool:
        """A request need not name a voice."""
        return self is not ModelKind.KOKORO


@dataclass(frozen=True, slots=True, kw_only=True)
class T2sOptions:
    """The options of one node.

    Attributes:
        directory: the model's directory, absolute.
        device: OpenVINO's name of the device.
        properties: OpenVINO's properties.
        voices: files by name.
        speed_min, speed_max: bounds of a request's speed.
        kind: the model's family.
        text_limit: characters that the model speaks in one call.
        piper: the settings of a Piper voice; None: of another family.
        warnings: texts for the log.
    """

    directory: Path
    device: str
    properties: Mapping[str, Any]
    voices: Mapping[str, Path]
    speed_min: float
    speed_max: float
    kind: ModelKind
    text_limit: int
    piper: PiperSettings | None = None
    warnings: tuple[str, ...] = ()


def read_t2s_options(node: NodePlan, settings: ResourceSettings) -> T2sOptions:
    """Check the options of a node, and the files that they name.

    Raises:
        ResourceError: with the node's name, the field, what is wrong, and what would be right.
    """
    with naming_node(node):
        return _read(find_model_options(node, OPTIONS_TYPE), settings)


def _read(options: messages.T2sCalculatorOptions, settings: ResourceSettings) -> T2sOptions:
    directory = find_model_directory(options.models_path, settings.directory)
    device, properties = read_device(options.target_device, options.plugin_config)
    low, high = options.speed_min, options.speed_max
    if not (math.isfinite(low) and math.isfinite(high) and 0 < low <= high):
        raise ResourceError(
            f"invalid speed bounds in graph: speed_min {low:g}, speed_max {high:g}; they must be "
            "numbers above 0, and speed_min must not be above speed_max"
        )
    piper = find_piper_voice(directory)
    if piper is not None:
        if device == "CPU":
            # Each length of a text has kernels of its own, which would be kept.
            properties.setdefault("CPU_RUNTIME_CACHE_CAPACITY", _PIPER_KERNELS)
        if options.voices:
            raise ResourceError(
                "voices: a Piper voice has the speakers that its own file names, and no others"
            )
        return T2sOptions(
            directory=directory,
            device=device,
            properties=properties,
            voices={},
            speed_min=low,
            speed_max=high,
            kind=ModelKind.PIPER,
            text_limit=_PIPER_CHARACTERS,
            piper=_piper_settings(piper),
        )
    config = _config(directory)
    kind = _kind(directory, options.models_path, config)
    return T2sOptions(
        directory=directory,
        device=device,
        properties=properties,
        voices=_voices(options, directory, settings.directory),
        speed_min=low,
        speed_max=high,
        kind=kind,
        text_limit=_text_limit(config) if kind is ModelKind.SPEECHT5 else _KOKORO_CHARACTERS,
        warnings=_missing_dictionaries(directory) if kind is ModelKind.KOKORO else (),
    )


def _piper_settings(model: Path) -> PiperSettings:
    file = Path(f"{model}.json")
    config = read_checked_json(file)
    try:
        kind = config.get("phoneme_type", "espeak")
        if kind not in ("espeak", "text"):
            raise ResourceError(
                f'models_path: {file.name}: phoneme_type "{kind}" is not known; voices with '
                '"espeak" and "text" can be spoken with'
            )
        inference = config.get("inference", {})
        numbers = config["phoneme_id_map"]
        ids = {str(name): [int(each) for each in numbers[name]] for name in numbers}
        if missing := {BEGIN, END, PAD} - ids.keys():
            raise KeyError(f"phoneme_id_map of {', '.join(sorted(missing))}")
        return PiperSettings(
            model=str(model),
            rate=int(config["audio"]["sample_rate"]),
            language=str(config["espeak"]["voice"]) if kind == "espeak" else "",
            ids=ids,
            scales=(
                float(inference.get("noise_scale", 0.667)),
                float(inference.get("length_scale", 1.0)),
                float(inference.get("noise_w", 0.8)),
            ),
            speakers={str(name): int(n) for name, n in config.get("speaker_id_map", {}).items()},
            has_speakers=int(config.get("num_speakers", 1)) > 1,
        )
    except KeyError as error:
        raise ResourceError(
            f"models_path: {file.name} is not the settings of a Piper voice: it has no {error}"
        ) from None
    except (TypeError, ValueError, AttributeError):
        raise ResourceError(
            f"models_path: {file.name} is not the settings of a Piper voice: a member has another "
            "type than Piper's"
        ) from None


def _missing_dictionaries(directory: Path) -> tuple[str, ...]:
    if DATA_VARIABLE in os.environ:
        return ()
    missing = [name for name in DICTIONARIES if not (directory / "data" / name).is_file()]
    if not missing:
        return ()
    return (
        f"models_path: data has no {', '.join(missing)}: English texts cannot be spoken; put the "
        f"dictionaries of misaki there, or name their folder in {DATA_VARIABLE}",
    )


def _config(directory: Path) -> Mapping[str, Any]:
    file = directory / "config.json"
    if not file.exists():
        raise ResourceError(
            "models_path: the directory has no config.json, and no voice of Piper (one NAME.onnx "
            "with NAME.onnx.json)"
        )
    return read_checked_json(file)


def _kind(directory: Path, models_path: str, config: Mapping[str, Any]) -> ModelKind:
    architectures = config.get("architectures")
    if isinstance(architectures, list) and _SPEECHT5 in architectures:
        for name in _SPEECHT5_FILES:
            for file in (f"{name}.xml", f"{name}.bin"):
                if not (directory / file).is_file():
                    raise ResourceError(
                        f'models_path: "{models_path}" has no {file}; optimum-cli export openvino '
                        "--task text-to-audio makes it"
                    )
        return ModelKind.SPEECHT5
    if isinstance(config.get("vocab"), dict) and (directory / "openvino_model.xml").is_file():
        return ModelKind.KOKORO
    raise ResourceError(
        f'models_path: "{models_path}" is not a model that speaks: config.json names the '
        f"architecture {_SPEECHT5}, or has Kokoro's vocab beside an openvino_model.xml; or the "
        "directory has one NAME.onnx of Piper with NAME.onnx.json"
    )


def _text_limit(config: Mapping[str, Any]) -> int:
    """Return the characters of one call of a SpeechT5 model, which has a token for each.

    Both ends are limited: the positions of the text, and of the speech, should the model not
    stop by itself.
    """

    def read(name: str, usual: int) -> int:
        value = config.get(name)
        return value if type(value) is int and value > 0 else usual

    text = read("max_text_positions", _TEXT_POSITIONS)
    speech = read("max_speech_positions", _SPEECH_POSITIONS)
    tokens = min(text, speech * _FRAMES_OF_STEP // _FRAMES_OF_TOKEN)
    return max(tokens - 2, 1)  # the blank before a text, and its end


def _voices(
    options: messages.T2sCalculatorOptions, directory: Path, graph: Path
) -> dict[str, Path]:
    """Return the voices of the model's directory; voices of the node replace them."""
    found = {file.stem: file for file in sorted((directory / "voices").glob("*.bin"))}
    named = {each.name: Path(graph, each.path) for each in options.voices}
    for name in named:
        if not name or len(name) > 256 or not name.isprintable():
            raise ResourceError("voices: a name must have 1 to 256 printable characters")
    for each in options.voices:
        if not named[each.name].is_file():
            raise ResourceError(
                "Requested voice speaker embeddings file does not exist: " + each.path
            )
    found.update(named)
    for name, file in found.items():
        size = file.stat().st_size
        if not file.is_file() or not size or size > _VOICE_BYTES:
            raise ResourceError(
                f'voice "{name}": {file.name} must be a file of 1 to {_VOICE_BYTES >> 20} MiB'
            )
        if size % _FLOAT_BYTES:
            raise ResourceError(
                f'voice "{name}": {file.name}: File size is not a multiple of float size.'
            )
    return found
