"""The options of `graphrt serve`, each declared once: flag, value, default, help, key of config."""
