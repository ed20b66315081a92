"""Responses, conversations and chat completions that a server keeps for its clients."""
