"""The scheduler: its actions, with the gates overcommit, proportion and gang, as its configuration says."""
