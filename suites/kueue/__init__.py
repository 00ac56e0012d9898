"""Admission by quota: what Kueue holds back, lets go and takes back."""
