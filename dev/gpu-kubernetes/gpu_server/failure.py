"""What is wrong, in one line."""


class Failed(Exception):
    """A cluster that could not be brought up or down; the text is one line for the user."""
