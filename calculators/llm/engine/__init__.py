"""The engine: openvino-genai with continuous batching, in a process of its own.

``messages`` is the protocol, ``core`` the loop that steps, ``process`` the child's main,
``genai_pipeline`` the only place that calls openvino-genai to generate. The server's side is an
`Engine` (``client``): `ProcessEngine` talks to a child, `InProcessEngine` runs the core in place,
for tests.
"""
