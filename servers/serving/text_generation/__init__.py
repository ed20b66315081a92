"""Language models over KServe: ``text_input`` in, ``text_output`` out, whole or piece by piece.

OpenVINO Model Server refuses such calls. Tensors and parameters have the names of Triton's vLLM and
TensorRT-LLM backends and of its generate extension. A request becomes a payload of
``/v3/completions``, so every graph that answers this endpoint can be called.
"""
