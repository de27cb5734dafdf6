"""The default predictor: a few work-groups are interpreted, scaled to the whole launch by the simulator's timing model,
and corrected by what was learned from labels."""
