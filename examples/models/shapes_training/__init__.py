"""Makes the small object detector of examples/models/shapes: pictures, training, export, check.

`python -m examples.models.shapes_training --help`, from the root of the checkout.
"""
