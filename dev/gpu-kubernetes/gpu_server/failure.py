"""What is wrong, in one line."""


class Failed(Exception):  # noqa: N818 - the kit of dev/kind calls it so too
    """A cluster that could not be brought up or down; the text is one line for the user."""
