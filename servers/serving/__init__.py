"""Servables of the data plane: repository, graphs, models, reload."""
