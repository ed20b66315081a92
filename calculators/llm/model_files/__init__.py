"""Readers of a model's files: GGUF, safetensors, adapters, vocabularies, configurations."""
