"""The scheduler: enqueue, allocate, backfill, with the gates overcommit, proportion and gang."""
