"""Anthropic's wire format: request bodies in, response bodies and events out. No transport."""
