"""Lifecycle: jobs end as documented."""
