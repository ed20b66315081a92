"""Language models behind KServe: ``text_input`` in, ``text_output`` out, whole or piece by piece.

OpenVINO Model Server refuses such calls. The names of tensors and parameters are those of Triton's
vLLM and TensorRT-LLM backends and of its generate extension; what is asked becomes a payload of
``/v3/completions``, so every graph that answers this endpoint can be called.
"""

from servers.serving.text_generation.text_model import RunGraph, TextModel

__all__ = ["RunGraph", "TextModel"]
