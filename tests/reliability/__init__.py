"""What a server survives: commands that take minutes, each with its figures.

``docs/reliability.md`` has the commands and what they said.
"""
