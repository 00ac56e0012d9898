"""Job plugins: what a Job's `spec.plugins` adds to its pods and beside them."""
