"""Requests for text, checked and resolved, whichever API they came through."""
