"""Editing of graph files: completion, hover, definitions and renaming, without a protocol.

`servers.cli.editor.language_server` gives them to editors by the Language Server Protocol.
"""
