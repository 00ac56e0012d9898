"""Programs of the busybox image, as far as job plugins use them."""
