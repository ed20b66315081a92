"""Models that read texts: embeddings, rerank, classes, over one encoder."""
