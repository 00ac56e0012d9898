"""Options of a run of pytest within a test."""

QUIET = ("-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")
"""Plugins that it does without: each process of an inner run would import hypothesis, and numpy for its seed, which is
more than it imports otherwise."""

SHUFFLED = ("-p", "randomly")
"""What a run of all rows loads again, behind `QUIET`: the rows come in random order."""

ALONE = (*QUIET, "-p", "no:html", "-p", "no:html_fixtures", "-p", "no:pytest-kubernetes")
"""What a run on a fake cluster does without as well; `tests/plugin/test_coexistence.py` has those that matter."""
