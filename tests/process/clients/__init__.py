"""One module per client library: ``facts(base_url)`` uses it and tells what it saw.

Run with ``python -m tests.process.clients NAME URL``, each in a process of its own, since these
libraries bring much along. They want the extra ``clients`` of the project.
"""
