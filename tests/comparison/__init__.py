"""Comparing what two clusters did with the same: masks, states, events, and the list of known differences."""
