"""The Job controller: from a Job to its PodGroup and pods, and through its life."""
