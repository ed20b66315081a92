"""KServe's clients, each in a process of its own: released versions of tritonclient and kserve.

A module per client: ``facts(address, spare)`` uses it and returns what it saw; ``spare`` is a graph
that it may unload. Run with ``python -m tests.process.kserve REST GRPC NAME``. They need the
project's extra ``clients``. The tests have the expectations.
"""
