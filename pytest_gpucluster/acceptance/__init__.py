"""Acceptance: whether recorded runs, judged again, open the gate that a policy describes."""
