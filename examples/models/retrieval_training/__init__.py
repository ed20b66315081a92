"""Makes the models of examples/graphs/rag from the Markdown of this project: one that embeds texts,
and one that ranks passages by the words that they share with a question.

`python -m examples.models.retrieval_training --help`, from the root of the checkout.
"""
