"""The data of the page: live counts, drawings of graphs, timelines of requests.

`events` declares everything that clients receive; the types of the page in TypeScript are made from
it. Without readers nothing here runs, and runs of graphs are not observed.
"""
