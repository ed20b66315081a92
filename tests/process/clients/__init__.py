"""Modules per client library: ``facts(base_url)`` uses it and tells what it saw.

``with_*`` ask for text, ``tools_with_*`` for calls, structured output and reasoning. Run with
``python -m tests.process.clients URL NAME...``, each library in a process of its own, since they
bring much along. They want the extra ``clients`` of the project. The tests say what should be seen.
"""
