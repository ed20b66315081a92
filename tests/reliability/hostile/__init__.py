"""Attacks on a running server beside a normal client, and their effect on that client."""
