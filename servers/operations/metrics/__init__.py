"""Metrics of a server, and the text of ``GET /metrics``."""
