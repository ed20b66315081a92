"""Views of a graph at work: statistics, traces, totals, times of calls."""
