"""Tests that run the commands and snippets of README and docs as they are written."""
