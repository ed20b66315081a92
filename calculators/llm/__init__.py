"""Language models: `HttpLLMCalculator`, its engine process, prompts, requests and responses.

`calculators.llm.task` is what the rest of the house knows of it.
"""
