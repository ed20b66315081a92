"""The site of documents: pages of the repository, and reference pages made from the code.

``python -m website`` writes the pages into ``build/site/pages``; ``mkdocs build`` makes the site of
them (``make docs``). No page is made by a plug-in, so that another builder can take its place.
"""
