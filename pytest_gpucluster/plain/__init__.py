"""Helpers that know nothing of clusters, tests or judges: names, quantities, selectors, times."""
