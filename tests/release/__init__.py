"""Wheel, sdist, release, and the files in `deploy/`."""
