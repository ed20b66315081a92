"""Embeddings: `EmbeddingsCalculatorOV`, the process of its model, requests and answers.

Other packages use only `calculators.text.embeddings.task`.
"""
