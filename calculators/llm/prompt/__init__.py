"""Prompts: from messages or text to token ids, in a process of its own.

Rendering a template and tokenizing a long prompt take milliseconds up to seconds and hold the
interpreter's lock, and a template can be hostile. So a child process does it, with limits of time
and memory, and the server's event loop goes on. ``builder`` does the work, ``process`` is the
child's main program, ``client`` the server's side.
"""
