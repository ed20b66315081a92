"""`build_model`: the OpenVINO model of a file, by the builder that its family names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import openvino as ov

from calculators.llm.model_files.builder import Builder
from calculators.llm.model_files.decoder import Decoder
from calculators.llm.model_files.gemma4 import Gemma4Builder
from calculators.llm.model_files.gguf import GgufFile
from calculators.llm.model_files.latent_attention import LatentBuilder
from calculators.llm.model_files.linear_attention import DeltaBuilder
from calculators.llm.model_files.packed import Form
from calculators.llm.model_files.short_convolution import ConvolutionBuilder
from calculators.llm.model_files.weights import Scratch

_BUILDERS: Final[Mapping[str, type[Builder]]] = {
    "decoder": Builder,
    "gemma4": Gemma4Builder,
    "latent": LatentBuilder,
    "convolution": ConvolutionBuilder,
    "delta": DeltaBuilder,
}


def build_model(file: GgufFile, decoder: Decoder, form: Form, scratch: Scratch) -> ov.Model:
    """Build the model of a file.

    Args:
        scratch: holds the constants; it must live as long as the model.

    Raises:
        ResourceError: a tensor is missing, left over, of a wrong shape, or of a type that cannot be
            computed.
    """
    return _BUILDERS[decoder.family.builder](file, decoder, form, scratch).build()
