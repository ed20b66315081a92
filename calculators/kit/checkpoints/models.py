"""`build_model`: the OpenVINO model of a file, by the builder that its family names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import openvino as ov

from calculators.kit.checkpoints.builder import Builder
from calculators.kit.checkpoints.decoder import Decoder
from calculators.kit.checkpoints.gemma4 import Gemma4Builder
from calculators.kit.checkpoints.gguf import GgufFile
from calculators.kit.checkpoints.latent_attention import LatentBuilder
from calculators.kit.checkpoints.linear_attention import DeltaBuilder
from calculators.kit.checkpoints.packed import Form
from calculators.kit.checkpoints.short_convolution import ConvolutionBuilder
from calculators.kit.checkpoints.weights import Scratch

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
