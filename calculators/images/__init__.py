"""Images: in packets, in requests, and drawn by models."""
