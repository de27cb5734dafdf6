"""The grammar: HIP programs from a typed kernel language, with the results they must print."""

from hipsynth.synth.generate.producer import generate, replay

__all__ = ["generate", "replay"]
