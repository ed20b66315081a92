"""Load on servers, and its figures."""
