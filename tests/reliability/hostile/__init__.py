"""Attacks on a running server beside a normal client, and what that client notices."""
