"""KServe's clients, each in a process of its own: tritonclient and kserve, as people have them.

A module per client: ``facts(address, spare)`` uses it and tells what it saw; ``spare`` is a graph
that it may unload. Run with ``python -m tests.process.kserve REST GRPC NAME``. They want the extra
``clients`` of the project. The tests say what should be seen.
"""
