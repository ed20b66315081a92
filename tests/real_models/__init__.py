"""SmolLM2-135M, a model that was made by others: vocabulary of 49,152, context of 8,192 tokens.

``make models`` downloads it (`bench.downloads smollm2`) and runs these tests; without the file they
are skipped. They assert what a model of its size does reliably, and the numbers of the API.
"""
