"""One server: its fronts, its start, its drain and its end."""
