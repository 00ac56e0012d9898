"""What schedulers and queues did: gangs, gates, room, evictions, quota."""
