"""The engine: openvino-genai in a process of its own.

The child: ``process`` is its main program, ``core`` the loop that steps a pipeline, and
``pipelines`` opens the pipeline that fits the model: ``genai_pipeline`` with continuous batching,
or ``stateful_pipeline`` with one request at a time. Only these two and ``stateful_models`` generate
with openvino-genai. ``messages`` is the protocol. The server's side is an `Engine` (``engine``),
which `ProcessEngine` implements.
"""
