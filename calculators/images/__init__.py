"""Images: in packets, in requests, and drawn by models."""

from __future__ import annotations
