"""The APIs over a language model: OpenAI and Anthropic bodies in, JSON and events out."""
