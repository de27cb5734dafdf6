"""The default predictor: a sample of work-groups is interpreted, scaled to the whole launch by the simulator's timing
model, and corrected by what was learned from labels."""
