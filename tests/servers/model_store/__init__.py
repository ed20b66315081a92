"""Models of a hub, and exports of models."""
