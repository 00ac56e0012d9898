"""Other ways to write a gang."""
