"""Drawings of the page: inline SVG from a report alone, legible without colour, each with its text beside it."""
