"""Reranking: `RerankCalculatorOV`, the model's process, requests and answers.

`calculators.rerank.task` is what the rest of the house knows of it.
"""
