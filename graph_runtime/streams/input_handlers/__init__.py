"""Input stream handlers: when a node is ready, and with which packets."""
