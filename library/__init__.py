"""What the verbs do, as functions: `import hipsynth; hipsynth.profile(...)`. The command line calls the same."""
