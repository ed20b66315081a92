"""Reliability suites: commands that take minutes, each with its figures.

``docs/reliability.md`` has the commands and their results.
"""
