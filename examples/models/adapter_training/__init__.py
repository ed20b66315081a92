"""Trains the two small adapters of `examples/graphs/adapters`.

``python -m examples.models.adapter_training all`` runs everything.
"""
