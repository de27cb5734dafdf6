"""How far simulated values are from hardware: expected errors and ranges by class of kernel, measured by studies/."""
