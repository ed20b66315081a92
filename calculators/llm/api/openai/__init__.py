"""OpenAI's wire format: request bodies in, response bodies and stream events out. No transport."""
