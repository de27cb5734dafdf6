"""Rename: replaces every name that the file declares by another plausible one, without changing the program.

The result is parsed again: every identifier must resolve to the same declaration as before. A name for which that
fails keeps its spelling, and the pass tries again.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from hipsynth.synth.frontend.edits import Edit, apply_edits
from hipsynth.synth.frontend.entities import Entity
from hipsynth.synth.frontend.names import Namer
from hipsynth.synth.frontend.parse import Diagnostic, ParseConfig, Unit, parse
from hipsynth.synth.frontend.source import Source
from hipsynth.synth.frontend.spellings import Spelling, SpellingTable, collect_spellings

ATTEMPTS = 6


@dataclass(frozen=True)
class Renaming:
    """Edits of one file, and old spelling -> its new spellings (several if it is used in several scopes)."""

    edits: tuple[Edit, ...]
    names: dict[str, frozenset[str]]

    def old_name(self, new: str) -> str | None:
        """The old spelling of a new name, or None."""
        return next((old for old, news in self.names.items() if new in news), None)


def plan(unit: Unit, seed: int, keep: frozenset[str] = frozenset()) -> Renaming:
    """The edits that rename a unit. The same text, seed and `keep` give the same edits on every machine.

    `keep` holds spellings to leave unchanged, in addition to those that the rules in `spellings` keep.
    """
    found = collect_spellings(unit)
    found.kept_spellings |= keep
    used = {t.text for t in unit.tokens}
    digest = hashlib.sha256(unit.text).hexdigest()
    namer = Namer(random.Random(f"rename:{seed}:{digest}"), lambda n: n in used or n in unit.header_words)
    namer.local_taken = lambda n: n in used or n in unit.macro_words
    kernels = _kernel_names(unit)
    ordered = _ordered_names(found, namer, kernels)
    tokens: dict[int, str] = {}
    for text, entry in sorted(found.spellings.items()):
        if not entry.user or text in found.kept_spellings:
            continue
        if entry.joined:
            name = ordered.get(text) or namer.make(_category(entry.user.values(), kernels))
            tokens.update(dict.fromkeys([*entry.user, *entry.unresolved], name))
        else:
            tokens.update(_name_entities(found, entry, namer, kernels, ordered))
    _name_macro_params(found, namer, tokens)
    return _renaming(unit, tokens)


def _name_entities(
    found: SpellingTable, entry: Spelling, namer: Namer, kernels: set[str], ordered: dict[str, str]
) -> dict[int, str]:
    """Token index -> new name: one name per local entity, and one shared by all other entities of this spelling
    (overloads and redeclarations)."""
    wide = [es for es in entry.user.values() if any(not e.local for e in es)]
    keep_wide = any(e in found.kept_entities for es in wide for e in es)
    new: dict[Entity | None, str] = {}
    tokens = {}
    for i, entities in sorted(entry.user.items()):
        entity = next(iter(entities))
        key = entity if entity.local and not entity.shared else None
        if entity in found.kept_entities or (key is None and keep_wide):
            continue
        if key not in new:
            if key is not None:
                new[key] = namer.make(entity.category, local=True)
            else:
                new[key] = ordered.get(entry.text) or namer.make(_category(wide or [entities], kernels))
        tokens[i] = new[key]
    return tokens


def _ordered_names(found: SpellingTable, namer: Namer, kernels: set[str]) -> dict[str, str]:
    """New names for LDS variables and the functions that declare them, in the same sort order as the old ones.

    The AMDGPU back end assigns LDS offsets in the order of mangled names, so another order would swap offsets.
    If one variable must keep its name, all of them do.
    """
    shared = {t for t, s in found.spellings.items() if any(e.shared for es in s.user.values() for e in es)}
    if any(t in found.kept_spellings or _kept_in(found, t) for t in shared):
        found.kept_spellings |= shared
        return {}
    owners = _lds_functions(found)
    if len(owners) < 2 or owners & found.kept_spellings:
        owners = set()
    names = _in_order(shared, [namer.make("variable") for _ in shared])
    categories = ["kernel" if o in kernels else "function" for o in sorted(owners)]
    return names | _in_order(owners, [namer.make(c) for c in categories])


def _kept_in(found: SpellingTable, text: str) -> bool:
    return any(e in found.kept_entities for es in found.spellings[text].user.values() for e in es)


def _in_order(old: set[str], new: list[str]) -> dict[str, str]:
    def mangled(name: str) -> str:
        return f"{len(name)}{name}"

    return dict(zip(sorted(old, key=mangled), sorted(new, key=mangled), strict=True))


def _lds_functions(found: SpellingTable) -> set[str]:
    """Spellings of the functions whose bodies declare LDS variables."""
    unit = found.unit
    offsets = [
        unit.tokens[i].start
        for s in found.spellings.values()
        for i, es in s.user.items()
        if any(e.shared and e.place == ("", unit.tokens[i].start) for e in es)
    ]
    ranges = {(a, b) for a, b in unit.functions if any(a <= p < b for p in offsets)}
    owners = set()
    for text, entry in found.spellings.items():
        for i, entities in entry.user.items():
            own = any(e.category in ("function", "method") and e.place == ("", unit.tokens[i].start) for e in entities)
            if own and any(a <= unit.tokens[i].start < b for a, b in ranges):
                owners.add(text)
    return owners


def _category(groups: Iterable[frozenset[Entity]], kernels: set[str]) -> str:
    """The naming category of entities that share one spelling: that of the first declared."""
    first = min((e for group in groups for e in group), key=lambda e: e.place)
    return "kernel" if first.name in kernels and first.category == "function" else first.category


def _kernel_names(unit: Unit) -> set[str]:
    """Names of functions declared after `__global__` (with return type, launch bounds and attributes between)."""
    names = set()
    pending = False
    for token, entities in zip(unit.tokens, unit.referents, strict=True):
        if token.text == "__global__":
            pending = True
        elif pending and any(e.user and e.category == "function" for e in entities):
            names.add(token.text)
            pending = False
    return names


def _name_macro_params(found: SpellingTable, namer: Namer, tokens: dict[int, str]) -> None:
    for macro, number, occurrences in found.macro_params:
        if macro.params[number] not in ("...", "__VA_ARGS__"):
            name = namer.make("macro parameter")
            tokens.update(dict.fromkeys(occurrences, name))


def _renaming(unit: Unit, tokens: dict[int, str]) -> Renaming:
    names: dict[str, set[str]] = {}
    edits = []
    for i, name in sorted(tokens.items()):
        token = unit.tokens[i]
        names.setdefault(token.text, set()).add(name)
        edits.append(Edit(token.start, token.end, name))
    return Renaming(tuple(edits), {old: frozenset(news) for old, news in names.items()})


def rename_only(unit: Unit, names: Mapping[str, str]) -> tuple[bytes | None, frozenset[str]]:
    """The text with the given spellings (old -> new) replaced, or None and the names that must not be renamed."""
    found = collect_spellings(unit)
    refused = frozenset(n for n in names if n in found.kept_spellings or n not in found.spellings)
    if refused:
        return None, refused
    tokens = {}
    for old, new in names.items():
        entry = found.spellings[old]
        occurrences = [i for i, es in entry.user.items() if not any(e.local for e in es)]
        tokens.update(dict.fromkeys([*occurrences, *entry.unresolved], new))
    return apply_edits(unit.text, _renaming(unit, tokens).edits), frozenset()


# --- verification by a second parse ---------------------------------------------------------------------------------


def rename(unit: Unit, config: ParseConfig, seed: int) -> tuple[bytes | None, Renaming | None, list[Diagnostic]]:
    """The renamed text and its renaming, or None and a diagnostic with reason `rename_unsafe`.

    Makes up to ATTEMPTS attempts; names that fail the verification keep their spelling in the next one.
    """
    keep: frozenset[str] = frozenset()
    path = unit.path
    problems: list[Diagnostic] = []
    for _ in range(ATTEMPTS):
        renaming = plan(unit, seed, keep)
        text = apply_edits(unit.text, renaming.edits)
        after, problems = parse(text, config, path=path)
        blamed = blame(problems, renaming) if after is None else differences(unit, after)
        if after is not None and not blamed:
            return text, renaming, []
        blamed = (blamed or _unresolved(unit)) - keep
        if not blamed:
            break
        keep |= blamed
    what = str(problems[0]) if problems else "identifiers would resolve to other declarations"
    return None, None, [Diagnostic("rename_unsafe", what)]


def blame(problems: Iterable[Diagnostic], renaming: Renaming) -> frozenset[str]:
    """The old spellings of the names that occur in compiler errors."""
    words = {w for p in problems for w in re.findall(r"[A-Za-z_]\w*", p.message)}
    news = {renaming.old_name(w) for w in words}
    return frozenset(n for n in news if n) | frozenset(w for w in words if w in renaming.names)


def differences(before: Unit, after: Unit) -> frozenset[str]:
    """Old spellings of identifiers that no longer resolve to the same entities; all if the number of tokens changed."""
    if len(before.tokens) != len(after.tokens):
        return frozenset(t.text for t in before.tokens if t.identifier)
    old = {t.start: i for i, t in enumerate(before.tokens)}
    new = {t.start: i for i, t in enumerate(after.tokens)}
    changed = set()
    for i, token in enumerate(before.tokens):
        if _shape(before.referents[i], old) != _shape(after.referents[i], new):
            changed.add(token.text)
    return frozenset(changed)


def _shape(entities: frozenset[Entity], numbers: dict[int, int]) -> frozenset[tuple[object, ...]]:
    return frozenset(
        (numbers.get(e.place[1], -1), e.category, e.pinned) if e.user else (e.name, e.place, e.category)
        for e in entities
    )


def _unresolved(unit: Unit) -> frozenset[str]:
    """Spellings with unresolved occurrences: the likely culprits if no compiler error names one."""
    return frozenset(s.text for s in collect_spellings(unit).spellings.values() if s.user and s.unresolved)


def apply(source: Source, argument: str, config: ParseConfig) -> tuple[Source | None, list[Diagnostic]]:
    """The pass's entry point in the pipeline: `argument` is the seed, 0 if empty."""
    unit, problems = parse(source.text, config, path=str(source.main) if source.main else None)
    if unit is None:
        return None, problems
    text, _, problems = rename(unit, config, int(argument or 0))
    return (None, problems) if text is None else (replace(source, text=text), [])
