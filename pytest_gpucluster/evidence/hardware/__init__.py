"""What was measured on hardware: devices, NUMA trials, collectives, NCCL logs."""
