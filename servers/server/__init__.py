"""One server: fronts, start, drain and stop."""
