"""Modules per client library: ``facts(base_url)`` uses the library and returns what it saw.

``with_*`` request text, ``tools_with_*`` calls, structured output and reasoning. Run with
``python -m tests.process.clients URL NAME...``, each library in a process of its own, because they
import much. They need the project's extra ``clients``. The tests have the expectations.
"""
