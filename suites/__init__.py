"""The requirements as executable tests: one folder an area, one file a family."""
