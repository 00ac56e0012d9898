"""Judges of gangs: all or nothing, minimums, what is left of a gang that lost a member."""
