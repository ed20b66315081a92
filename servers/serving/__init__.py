"""Servables behind the data plane: repository, graphs, models, reload."""
