"""Filters over time: landmarks, visibilities and masks that tremble less."""
