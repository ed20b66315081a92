"""The store of responses, conversations and chat completions."""
