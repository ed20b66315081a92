"""Language models: `HttpLLMCalculator`, its engine process, prompts, requests and responses.

Servers know `calculators.llm.task` only.
"""
