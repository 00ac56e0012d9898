"""Judges of the traffic between ranks: transports, communicators, bus bandwidth."""
