"""The commands and snippets of README and docs, run as they stand there."""
