"""Expected errors of simulated values against hardware, by class of kernel; measured by studies/."""
