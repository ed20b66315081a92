"""Fronts and what they share: the command line, pictures of graphs."""
