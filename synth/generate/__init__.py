"""Generates HIP programs from a typed kernel language, together with the output each program must print."""

from hipsynth.synth.generate.build import replay
from hipsynth.synth.generate.producer import generate

__all__ = ["generate", "replay"]
