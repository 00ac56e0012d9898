"""Tests of the gate: policies, machines, what several runs show together, and the decision."""
