"""Models that read texts: embeddings, rerank, classes, over one encoder."""

from __future__ import annotations
