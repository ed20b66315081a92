"""Drawings of graphs as SVG, Mermaid, DOT or text.

`description` reads a graph. `diagram` reduces it to boxes and edges, which the writers `mermaid`
and `dot` print, and which `layout` places for `svg`. There are no dependencies, and no fonts or
scripts from outside.
"""
