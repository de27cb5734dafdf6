"""Generates HIP programs from a typed kernel language, together with the output each program must print."""

from hipsynth.synth.generate.build import replay_program
from hipsynth.synth.generate.producer import generate_programs

__all__ = ["generate_programs", "replay_program"]
