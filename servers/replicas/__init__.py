"""Servables as deployments of Ray Serve: the fronts here, the graphs and models in replicas.

Only this package imports Ray, and only once `serve --on ray` asks for it.
"""
