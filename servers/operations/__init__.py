"""Metrics, traces, the request log, the loop watchdog: all that operators see of a server."""
