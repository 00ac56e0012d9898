"""Scenarios: one workload each, put through its life; several requirements judge one."""
