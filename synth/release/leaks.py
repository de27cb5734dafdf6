"""What a release's splits must not share: programs, lineages, and sources that differ in names and numbers only."""

from __future__ import annotations

from hipsynth.core.store.release import Release
from hipsynth.core.store.splits import RELEASED
from hipsynth.source.skeletons import control_skeleton, token_skeleton

TRAINED_ON = ("train", "validation")
TESTS = ("test", "unseen_families", "unseen_devices")


def find_leaks(release: Release) -> list[str]:
    """What is both trained on and tested with, in words; none in a sound release. Compares the sources themselves."""
    texts = {row["id"]: row["text"] for row in release.read("programs").select(["id", "text"]).to_pylist()}
    found = []
    programs = {split: _split_programs(release, split) for split in RELEASED}
    for what, of in (("control skeleton", control_skeleton), ("token stream", token_skeleton)):
        keys = {program: of(text) for program, text in texts.items()}
        trained = {keys[program]: program for split in TRAINED_ON for program in sorted(programs[split])}
        for split in TESTS:
            for program in sorted(programs[split]):
                if keys[program] in trained:
                    found.append(f"{split}: {program} has the {what} of {trained[keys[program]]}, which is trained on")
    return found


def _split_programs(release: Release, split: str) -> set[str]:
    labelled = release.read("labels", split)["program"].to_pylist()
    return set(labelled) | set(release.read("programs", split)["id"].to_pylist())
