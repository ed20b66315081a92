"""Models of a hub."""
