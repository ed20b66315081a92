"""Coding agents of npm against a server, unmodified: a command of its own."""
