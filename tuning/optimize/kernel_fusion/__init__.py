"""Kernel fusion: launches that become one, by work-items, work-groups, loops of launches or blocks of time steps."""
