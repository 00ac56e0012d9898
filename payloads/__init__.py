"""Programs that run inside pods: self-contained, one JSON line per event in one write."""
