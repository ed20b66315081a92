"""Encoder models over texts: tokenizing, batches across requests, and a process for each model.

Embeddings, rerankers and classifiers build on it. A task supplies two functions for the process,
one that turns its questions into sequences of tokens, and one that completes the model with the
task's pooling or head; in the server it asks a `TextModel` and gets a matrix.
"""
