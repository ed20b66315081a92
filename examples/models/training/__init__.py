"""Makes the small chat model of examples/models/demo: data, tokenizer, training, export, check.

`python -m examples.models.training --help`, from the root of the checkout.
"""
