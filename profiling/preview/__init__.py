"""What can be known of a kernel before it runs: launches as the host code would make them, and the work-groups' machine
code interpreted for a small part of the grid."""
