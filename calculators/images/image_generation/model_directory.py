"""The files of a diffusion model's directory, as diffusers and optimum-intel write them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

#: The file that names a pipeline's class and its parts.
MODEL_INDEX: Final = "model_index.json"
#: The parts of a pipeline that remove noise; a pipeline has one of them.
DENOISERS: Final = ("unet", "transformer")


def is_exported(directory: Path) -> bool:
    """Return whether a directory holds a pipeline in OpenVINO's form."""
    return (directory / MODEL_INDEX).is_file() and any(
        (directory / part / "openvino_model.xml").is_file() for part in DENOISERS
    )


def is_source(directory: Path) -> bool:
    """Return whether a directory holds a pipeline of safetensors that is not exported yet."""
    return (
        (directory / MODEL_INDEX).is_file()
        and any(any((directory / part).glob("*.safetensors")) for part in DENOISERS)
        and not is_exported(directory)
    )
