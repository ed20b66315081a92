"""Embeddings: `EmbeddingsCalculatorOV`, the process of its model, requests and answers.

`calculators.embeddings.task` is what the rest of the house knows of it.
"""
