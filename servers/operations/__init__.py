"""Metrics, traces, the request log, the loop watchdog: the view of an operator."""
