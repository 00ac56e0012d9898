"""What training did, as its ranks told it."""
