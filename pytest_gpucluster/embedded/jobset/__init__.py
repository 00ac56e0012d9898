"""JobSet v0.10.1, as far as it is played: replicated Jobs, names, success, failure, order and suspension."""
