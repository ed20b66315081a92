"""The making of the two tiny diffusion models that tests draw with."""
