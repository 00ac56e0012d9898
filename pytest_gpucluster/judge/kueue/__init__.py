"""Judges of Kueue: admission, quota, teams."""
