"""Sound: its packets, speech to text, text to speech."""

from __future__ import annotations
