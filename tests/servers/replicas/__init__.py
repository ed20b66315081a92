"""Servables whose replicas run on a cluster."""
