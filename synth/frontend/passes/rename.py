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

from hipsynth.core.reasons import Reason
from hipsynth.source.clang import TOKEN_COMMENT
from hipsynth.source.edits import Edit, apply_edits
from hipsynth.source.entities import Entity
from hipsynth.source.outline import declared_kernels
from hipsynth.source.parse import Diagnostic, ParseConfig, ParsedUnit, parse_source
from hipsynth.synth.frontend.comments_and_strings import DEFAULT_TEXTS, Texts, text_edits
from hipsynth.synth.frontend.pass_input import ProgramSource
from hipsynth.synth.frontend.plausible_names import Namer
from hipsynth.synth.frontend.rename_groups import Spelling, SpellingTable, collect_spellings

ATTEMPTS = 6


@dataclass(frozen=True)
class Renaming:
    """Edits of one file, old spelling -> its new spellings (several if it is used in several scopes), and the names
    that stay, each with the reason, one of `rename_groups.REASONS`."""

    edits: tuple[Edit, ...]
    names: dict[str, frozenset[str]]
    kept: dict[str, str]

    def old_name(self, new: str) -> str | None:
        """The old spelling of a new name, or None."""
        return next((old for old, news in self.names.items() if new in news), None)


def plan_renaming(unit: ParsedUnit, seed: int, keep: frozenset[str] = frozenset()) -> Renaming:
    """The edits that rename a unit. The same text, seed and `keep` give the same edits on every machine.

    `keep` holds spellings to leave unchanged, in addition to those that the rules in `rename_groups` keep.
    """
    spellings = collect_spellings(unit)
    spellings.kept_spellings |= dict.fromkeys(keep - spellings.kept_spellings.keys(), "unsafe")
    kernels = declared_kernels(unit.text.decode(errors="surrogateescape"))
    namer = _make_namer(spellings, seed)
    ordered = _ordered_names(spellings, namer, kernels)
    tokens: dict[int, str] = {}
    for text, entry in sorted(spellings.spellings.items()):
        if not entry.user or text in spellings.kept_spellings:
            continue
        if entry.joined:
            first = _first_declared(entry.user.values())
            name = ordered.get(text) or namer.make(_naming_category(first, kernels), shape=first.shape, old=text)
            tokens.update(dict.fromkeys([*entry.user, *entry.unresolved], name))
        else:
            tokens.update(_name_entities(spellings, entry, namer, kernels, ordered))
    for text, occurrences in sorted(spellings.inactive.items()):
        category = "function" if unit.tokens[occurrences[0] + 1].text == "(" else "variable"
        tokens.update(dict.fromkeys(occurrences, namer.make(category, old=text)))
    _name_macro_params(spellings, namer, tokens)
    return _build_renaming(unit, tokens, spellings.kept_names())


def _make_namer(spellings: SpellingTable, seed: int) -> Namer:
    """A source of names that the file does not use, or uses only where they are replaced."""
    unit = spellings.unit
    params = {macro.params[number] for macro, number, _ in spellings.macro_params}
    freed = {text for text, entry in spellings.spellings.items() if text not in params and _is_freed(spellings, entry)}
    used = {t.text for t in unit.tokens} - freed
    digest = hashlib.sha256(unit.text).hexdigest()
    namer = Namer(random.Random(f"rename:{seed}:{digest}"), lambda n: n in used or n in unit.header_words)
    namer.local_taken = lambda n: n in used or n in unit.macro_words
    return namer


def _is_freed(spellings: SpellingTable, entry: Spelling) -> bool:
    """Whether every occurrence of a spelling gets a new name, so that another entity may have the old one."""
    if not entry.user or entry.system or entry.text in spellings.kept_spellings:
        return False
    return not any(e in spellings.kept_entities for es in entry.user.values() for e in es)


OWN_NAME = 0.08  # how often a local entity gets a name of its own, and not that of all locals of its spelling


def _name_entities(
    spellings: SpellingTable, entry: Spelling, namer: Namer, kernels: frozenset[str], ordered: dict[str, str]
) -> dict[int, str]:
    """Token index -> new name: mostly one name for all local entities of this spelling, as programmers do, and one for
    all other entities (overloads and redeclarations)."""
    wide = [es for es in entry.user.values() if any(not e.local for e in es)]
    keep_wide = any(e in spellings.kept_entities for es in wide for e in es)
    keys: dict[Entity, Entity | str] = {}
    new: dict[Entity | str, str] = {}
    tokens = {}
    for i, entities in sorted(entry.user.items()):
        entity = next(iter(entities))
        local = entity.local and not entity.shared
        if entity in spellings.kept_entities or (not local and keep_wide):
            continue
        if local:
            if entity not in keys:
                keys[entity] = entity if namer.rng.random() < OWN_NAME else "local"
            key = keys[entity]
            if key not in new:
                new[key] = namer.make(entity.category, local=True, shape=entity.shape, old=entry.text)
        else:
            key, first = "wide", _first_declared(wide or [entities])
            if key not in new:
                new[key] = ordered.get(entry.text) or namer.make(
                    _naming_category(first, kernels), shape=first.shape, old=entry.text
                )
        tokens[i] = new[key]
    return tokens


def _ordered_names(spellings: SpellingTable, namer: Namer, kernels: frozenset[str]) -> dict[str, str]:
    """New names for LDS variables and the functions that declare them, in the same sort order as the old ones.

    The AMDGPU back end assigns LDS offsets in the order of mangled names, so another order would swap offsets.
    If one variable must keep its name, all of them do.
    """
    shared = {t for t, s in spellings.spellings.items() if any(e.shared for es in s.user.values() for e in es)}
    if any(t in spellings.kept_spellings or _kept_in(spellings, t) for t in shared):
        spellings.keep(shared, "lds_order")
        return {}
    owners = _lds_functions(spellings)
    if len(owners) < 2 or owners & spellings.kept_spellings.keys():
        owners = set()
    names = _in_order(shared, [namer.make("variable") for _ in shared])
    categories = ["kernel" if o in kernels else "function" for o in sorted(owners)]
    return names | _in_order(owners, [namer.make(c) for c in categories])


def _kept_in(spellings: SpellingTable, text: str) -> bool:
    return any(e in spellings.kept_entities for es in spellings.spellings[text].user.values() for e in es)


def _in_order(old: set[str], new: list[str]) -> dict[str, str]:
    def mangled(name: str) -> str:
        return f"{len(name)}{name}"

    return dict(zip(sorted(old, key=mangled), sorted(new, key=mangled), strict=True))


def _lds_functions(spellings: SpellingTable) -> set[str]:
    """Spellings of the functions whose bodies declare LDS variables."""
    unit = spellings.unit
    offsets = [
        unit.tokens[i].start
        for s in spellings.spellings.values()
        for i, es in s.user.items()
        if any(e.shared and e.place == ("", unit.tokens[i].start) for e in es)
    ]
    ranges = {(a, b) for a, b in unit.functions if any(a <= p < b for p in offsets)}
    owners = set()
    for text, entry in spellings.spellings.items():
        for i, entities in entry.user.items():
            is_declared_here = any(
                e.category in ("function", "method") and e.place == ("", unit.tokens[i].start) for e in entities
            )
            if is_declared_here and any(a <= unit.tokens[i].start < b for a, b in ranges):
                owners.add(text)
    return owners


def _first_declared(groups: Iterable[frozenset[Entity]]) -> Entity:
    """Of the entities that share one spelling, the first declared: its kind decides about the name."""
    return min((e for group in groups for e in group), key=lambda e: e.place)


def _naming_category(entity: Entity, kernels: frozenset[str]) -> str:
    return "kernel" if entity.name in kernels and entity.category == "function" else entity.category


def _name_macro_params(spellings: SpellingTable, namer: Namer, tokens: dict[int, str]) -> None:
    for macro, number, occurrences in spellings.macro_params:
        if macro.params[number] not in ("...", "__VA_ARGS__"):
            name = namer.make("macro parameter")
            tokens.update(dict.fromkeys(occurrences, name))


def _build_renaming(unit: ParsedUnit, tokens: dict[int, str], kept_names: dict[str, str]) -> Renaming:
    names: dict[str, set[str]] = {}
    edits = []
    for i, name in sorted(tokens.items()):
        token = unit.tokens[i]
        names.setdefault(token.text, set()).add(name)
        edits.append(Edit(token.start, token.end, name))
    usual = {old: "usual" for old, news in names.items() if old in news}
    return Renaming(tuple(edits), {old: frozenset(news) for old, news in names.items()}, usual | kept_names)


def rename_only(unit: ParsedUnit, names: Mapping[str, str]) -> tuple[bytes | None, frozenset[str]]:
    """The text with the given spellings (old -> new) replaced, or None and the names that must not be renamed."""
    spellings = collect_spellings(unit)
    refused = frozenset(n for n in names if n in spellings.kept_spellings or n not in spellings.spellings)
    if refused:
        return None, refused
    tokens = {}
    for old, new in names.items():
        entry = spellings.spellings[old]
        occurrences = [i for i, es in entry.user.items() if not any(e.local for e in es)]
        tokens.update(dict.fromkeys([*occurrences, *entry.unresolved], new))
    return apply_edits(unit.text, _build_renaming(unit, tokens, {}).edits), frozenset()


# --- verification by a second parse ---------------------------------------------------------------------------------


def rename_unit(
    unit: ParsedUnit, config: ParseConfig, seed: int, texts: Texts = DEFAULT_TEXTS
) -> tuple[bytes | None, Renaming | None, list[Diagnostic]]:
    """The renamed text and its renaming, or None and a diagnostic with reason `rename_unsafe`.

    Makes up to ATTEMPTS attempts; names that fail the verification keep their spelling in the next one.
    """
    keep: frozenset[str] = frozenset()
    path = unit.path
    problems: list[Diagnostic] = []
    for _ in range(ATTEMPTS):
        renaming = plan_renaming(unit, seed, keep)
        text = apply_edits(unit.text, (*renaming.edits, *text_edits(unit, renaming.names, texts)))
        after, problems = parse_source(text, config, path=path)
        blamed = blamed_names(problems, renaming) if after is None else changed_referents(unit, after)
        if after is not None and not blamed:
            return text, renaming, []
        blamed = (blamed or _unresolved_names(unit)) - keep
        if not blamed:
            break
        keep |= blamed
    problem = str(problems[0]) if problems else "identifiers would resolve to other declarations"
    return None, None, [Diagnostic(Reason.RENAME_UNSAFE, problem)]


def blamed_names(problems: Iterable[Diagnostic], renaming: Renaming) -> frozenset[str]:
    """The old spellings of the names that occur in compiler errors."""
    words = {w for p in problems for w in re.findall(r"[A-Za-z_]\w*", p.message)}
    news = {renaming.old_name(w) for w in words}
    return frozenset(n for n in news if n) | frozenset(w for w in words if w in renaming.names)


def changed_referents(before: ParsedUnit, after: ParsedUnit) -> frozenset[str]:
    """Old spellings of identifiers that no longer resolve to the same entities; all if the number of tokens changed.

    Comments do not count.
    """
    pairs = [[i for i, t in enumerate(unit.tokens) if t.kind != TOKEN_COMMENT] for unit in (before, after)]
    if len(pairs[0]) != len(pairs[1]):
        return frozenset(t.text for t in before.tokens if t.identifier)
    old, new = (
        {unit.tokens[i].start: number for number, i in enumerate(numbers)}
        for unit, numbers in zip((before, after), pairs, strict=True)
    )
    changed = set()
    for i, j in zip(*pairs, strict=True):
        named = before.referents[i] or after.referents[j]
        if named and _entity_shape(before.referents[i], old) != _entity_shape(after.referents[j], new):
            changed.add(before.tokens[i].text)
    return frozenset(changed)


def _entity_shape(entities: frozenset[Entity], numbers: dict[int, int]) -> frozenset[tuple[object, ...]]:
    return frozenset(
        (numbers.get(e.place[1], -1), e.category, e.pinned) if e.user else (e.name, e.place, e.category)
        for e in entities
    )


def _unresolved_names(unit: ParsedUnit) -> frozenset[str]:
    """Spellings with unresolved occurrences: the likely culprits if no compiler error names one."""
    spellings = collect_spellings(unit)
    macros = {macro.name for macro in spellings.macros}
    return frozenset(s.text for s in spellings.spellings.values() if s.user and s.unresolved) - macros


def apply_pass(
    source: ProgramSource, argument: str, config: ParseConfig
) -> tuple[ProgramSource | None, list[Diagnostic]]:
    """The pass's entry point in the pipeline: `argument` is the seed, 0 if empty, and settings of `Texts`."""
    unit, problems = parse_source(source.text, config, path=str(source.main) if source.main else None)
    if unit is None:
        return None, problems
    seed, *settings = argument.split(",")
    text, _, problems = rename_unit(unit, config, int(seed or 0), Texts.read(settings))
    return (None, problems) if text is None else (replace(source, text=text), [])
