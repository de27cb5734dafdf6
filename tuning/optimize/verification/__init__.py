"""Whether a changed program does the same: every check of `synth optimize` and `synth verify`."""
