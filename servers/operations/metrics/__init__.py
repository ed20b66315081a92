"""What a server counts, and the text of ``GET /metrics``."""
