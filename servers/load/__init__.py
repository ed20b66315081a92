"""Load on a server of the OpenAI API, and its measurement, as a client sees it.

Definitions, table and JSON follow vLLM's ``vllm bench serve``.
"""
