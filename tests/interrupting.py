"""What tests that send signals share."""

LISTENS_TO_CTRL_C = ("env", "--default-signal=INT")
"""Put before a command that must hear SIGINT: what a shell starts in the background inherits it ignored."""
