"""Makes the small vision model of examples/models/shapes_vlm: data, training, export, check.

`python -m examples.models.vision_training --help`, from the root of the checkout.
"""
