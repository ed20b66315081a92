"""The engine: openvino-genai in a process of its own.

``messages`` is the protocol, ``core`` the loop that steps, ``process`` the child's main,
``pipelines`` chooses what generates: ``genai_pipeline`` with continuous batching, or
``stateful_pipeline`` one request at a time; only they and ``stateful_models`` call openvino-genai
for that. The server's side is an `Engine` (``engine``): `ProcessEngine` talks to a child,
`InProcessEngine` runs the core in place, for tests.
"""
