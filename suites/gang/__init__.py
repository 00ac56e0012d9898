"""Gang: gangs start whole or not at all."""
