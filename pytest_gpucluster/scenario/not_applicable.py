"""What a scenario says when there is nothing to try."""


class NotApplicable(Exception):  # noqa: N818 (a state of affairs, not a fault)
    """The profile does not declare, or the provider does not have, what the scenario needs."""
