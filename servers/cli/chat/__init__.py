"""`graphrt chat`: a conversation with a model in the terminal."""

from servers.cli.chat.command import execute

__all__ = ["execute"]
