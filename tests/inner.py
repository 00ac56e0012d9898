"""Options of a run of pytest within a test."""

QUIET = ("-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")
"""Plugins that it does without: each process of an inner run would import hypothesis, and numpy for its seed, which is
more than it imports otherwise."""

SHUFFLED = ("-p", "randomly")
"""What a run of all rows loads again, behind `QUIET`: the rows come in random order."""
