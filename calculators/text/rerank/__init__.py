"""Reranking: `RerankCalculatorOV`, the model's process, requests and answers.

Other packages use only `calculators.text.rerank.task`.
"""
