"""Ollama's wire format: request bodies in, response bodies and lines out. No transport."""
