"""From messages or text to token ids, in a process of its own.

Rendering a template and tokenizing a long prompt take milliseconds up to seconds and hold the
interpreter's lock; a template can be hostile. So a child does it, with a limit of time and memory,
and the server's event loop goes on. ``maker`` does the work, ``process`` is the child's main,
``client`` the server's side.
"""
