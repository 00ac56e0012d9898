"""A kind cluster from nothing but Go modules and the distribution's packages: no image registry, no packet outside."""
