"""The choice of a tokenizer by the files of a model's directory."""

from __future__ import annotations

from pathlib import Path

from calculators.text.text_models.hugging_face_tokenizer import HuggingFaceTokenizer
from calculators.text.text_models.messages import Load
from calculators.text.text_models.text_tokenizer import TextTokenizer


def open_tokenizer(load: Load) -> TextTokenizer:
    """Open the tokenizer of a model's directory: tokenizer.json, else OpenVINO's own files.

    Raises:
        RuntimeError: it cannot be read.
    """
    file = Path(load.model_path) / "tokenizer.json"
    if file.is_file():
        return HuggingFaceTokenizer(load, file)
    # Imported here: genai takes long to load, and nearly no model needs it.
    from calculators.text.text_models.openvino_tokenizer import OpenvinoTokenizer

    return OpenvinoTokenizer(load)
