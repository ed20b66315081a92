"""Nodes of an author's own: functions and small classes become calculators."""
