"""Queues and bounds of streams, and the input handlers that decide when a node may run."""
