"""Checks of the files of an EAGLE-3 draft model.

Source: openvino.genai, ``src/cpp/src/speculative_decoding/eagle3_model_transforms.cpp``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from calculators.llm.model_files.model_files import read_json_object
from graph_runtime import ResourceError
from graphrt_base.regular_file import MODEL_FILE_BYTES, read_regular_file

_MODEL: Final = "openvino_model.xml"
#: Runtime information as OpenVINO writes it at the end of a model.
_MODE: Final = re.compile(rb'<eagle3_mode\s+value="(?:true|True|TRUE|1|YES)"')
_LAYERS: Final = re.compile(rb"<hidden_layers_list\b")
_HIDDEN: Final = re.compile(rb'<layer [^>]*name="[^"]*hidden_states[^"]*"[^>]* type="Parameter"')
#: Layers that the main model needs if the draft model does not say which three it reads.
MIN_LAYERS: Final = 10


def is_eagle3(draft: Path) -> bool:
    """Return True if the model's file declares EAGLE-3, which the engine's library reads too."""
    return _MODE.search(read_regular_file(draft / _MODEL, MODEL_FILE_BYTES)) is not None


def check_eagle3(draft: Path, main: Path, shown: str) -> None:
    """Check that a draft model can be used as one of EAGLE-3. ``shown``: begins the message.

    Raises:
        ResourceError: its files lack something; the text says what.
    """
    content = read_regular_file(draft / _MODEL, MODEL_FILE_BYTES)
    if _MODE.search(content) is None:
        raise ResourceError(
            f"{shown} is no EAGLE-3 model: {_MODEL} has no runtime information eagle3_mode; export "
            "it as one, or leave out draft_eagle3_mode"
        )
    if _HIDDEN.search(content) is None:
        raise ResourceError(
            f"{shown} is no EAGLE-3 model: {_MODEL} has no input hidden_states, from which it "
            "would read the main model's thoughts; export it again"
        )
    if _LAYERS.search(content) is None:
        layers = _layers(main)
        if layers < MIN_LAYERS:
            raise ResourceError(
                f"{shown} does not say which layers of the main model it reads (runtime "
                f"information hidden_layers_list), which it must unless that has {MIN_LAYERS} "
                f"layers; its config.json says {layers or 'nothing'}"
            )


def _layers(main: Path) -> int:
    config = read_json_object(main / "config.json")
    inner = config.get("text_config")
    value = config.get("num_hidden_layers") or (
        inner.get("num_hidden_layers") if isinstance(inner, dict) else 0
    )
    return value if type(value) is int else 0
