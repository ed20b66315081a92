"""Irises: their drawing, and their distance from the camera."""
