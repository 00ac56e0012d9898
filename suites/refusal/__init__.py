"""Refusal: what cannot run is refused, by the component that must refuse."""
