"""Pictures of graphs: what a graph is made of, laid out in layers, as SVG, Mermaid, DOT or text.

`description` reads a graph; `diagram` reduces it to boxes and edges, which the writers `mermaid`
and `dot` print and `layout` places for `svg`. No dependencies, no fonts or scripts from outside.
"""
