"""Comments and string literals that spell old names: kept, rewritten or dropped."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from hipsynth.core.errors import UsageError
from hipsynth.source.clang import TOKEN_COMMENT, TOKEN_LITERAL
from hipsynth.source.cursor_kinds import Kind
from hipsynth.source.declarations import DEVICE_CODE
from hipsynth.source.edits import Edit
from hipsynth.source.parse import ParsedUnit, Token
from hipsynth.synth.frontend.plausible_names import word_list

COMMENTS = ("keep", "rewrite", "drop")
STRINGS = ("keep", "rewrite")
# Words that comments use far more often than names.
_ENGLISH = frozenset(
    word_list("""
    all also and any are both but can each for from has have into less may more most not one only other our out over
    per same such than that the then this two under use used was when where which while will with
    """)
)
_CODE = frozenset("[]()<>*&=+/`.|^%!")
_WORD = re.compile(r"(?<![\w\\])[A-Za-z_]\w*")
# In a literal, escapes and the conversions of printf are no words; a word may follow an escape.
_LITERAL_WORD = re.compile(
    r"\\.|%[-+ #0-9.*]*(?:hh?|ll?|[jztL])?[A-Za-z%]|(?<![A-Za-z0-9_])[A-Za-z_]\w*|(?<=\\[nt])[A-Za-z_]\w*"
)
_CONSTANT = re.compile(rb"\b(?:constexpr|consteval)\b")
_NO_TEXT = {Kind.INCLUSION_DIRECTIVE.value, Kind.ASM_STMT.value, Kind.PREPROCESSING_DIRECTIVE.value}
_COMPARES = {"==", "!=", "<", ">"}
_DECIDES = re.compile(
    r"(?i)^(?:str\w*|mem\w*|get\w*|find\w*|compare|count|at|contains|starts_with|ends_with|fopen|open)$"
)
MOST_BEFORE = 200  # tokens in front of a literal in which its call is looked for
_TAKES_STRING = {"extern", "section", "alias", "annotate", "target", "visibility", "asm", "__asm__", "_Pragma"} | {
    "include", "include_next", "line",
}  # fmt: skip


@dataclass(frozen=True)
class Texts:
    """How old names in comments (COMMENTS) and in string literals (STRINGS) are treated.

    Rewritten strings change what a program prints, but no device code: only literals of host functions are rewritten.
    """

    comments: str = "rewrite"
    strings: str = "keep"

    @property
    def changes_output(self) -> bool:
        """Whether a program with these texts may print something else."""
        return self.strings == "rewrite"

    @property
    def words(self) -> str:
        """The settings that are not the default, for a program's derivation: ",comments=drop,strings=rewrite"."""
        chosen = [("comments", self.comments), ("strings", self.strings)]
        usual = {"comments": DEFAULT_TEXTS.comments, "strings": DEFAULT_TEXTS.strings}
        return "".join(f",{name}={value}" for name, value in chosen if value != usual[name])

    @staticmethod
    def read(words: Sequence[str]) -> Texts:
        """The inverse of `words`, split at the commas; raises UsageError for an unknown setting."""
        texts = Texts()
        for word in words:
            name, _, value = word.partition("=")
            if value not in {"comments": COMMENTS, "strings": STRINGS}.get(name, ()):
                raise UsageError(f"unknown setting {word!r} of the pass rename", remedy="e.g. rename:7,comments=drop")
            texts = Texts(value, texts.strings) if name == "comments" else Texts(texts.comments, value)
        return texts


DEFAULT_TEXTS = Texts()


def text_edits(unit: ParsedUnit, names: Mapping[str, frozenset[str]], texts: Texts) -> list[Edit]:
    """The edits of comments and string literals that go with a renaming, old spelling -> new spellings.

    A word that is the old name of several entities becomes the first of their new names.
    """
    new = {old: min(name) for old, name in names.items()}
    free = _free_texts(unit) if texts.changes_output else set()
    edits = []
    for i, token in enumerate(unit.tokens):
        if token.kind == TOKEN_COMMENT and texts.comments == "rewrite":
            text = _WORD.sub(partial(_rename_word, new, _is_name), token.text)
        elif token.kind == TOKEN_COMMENT and texts.comments == "drop":
            text = _blank_token(token, unit.text)
        elif i in free:
            text = _LITERAL_WORD.sub(partial(_rename_word, new, _is_name_in_literal), token.text)
        else:
            continue
        if text != token.text:
            edits.append(Edit(token.start, token.end, text))
    return edits


def _rename_word(new: Mapping[str, str], is_name: Callable[[re.Match[str]], bool], word: re.Match[str]) -> str:
    return new[word[0]] if word[0] in new and is_name(word) else word[0]


def _host_functions(unit: ParsedUnit) -> list[tuple[int, int]]:
    """The byte ranges of functions without device code: a printf there has the text of its literals in instructions."""
    functions = []
    for start, end in unit.functions:
        before = max(unit.text.rfind(mark, 0, start) for mark in (b";", b"}"))
        body = unit.text[before + 1 : end]
        if not DEVICE_CODE.search(body) and not _CONSTANT.search(body):
            functions.append((start, end))
    return functions


def _free_texts(unit: ParsedUnit) -> set[int]:
    """The string literals of host functions that may change: a text that stays in one place stays in all, because a
    program may look one up by the other."""
    host = _host_functions(unit)
    literals = {i for i, token in enumerate(unit.tokens) if token.kind == TOKEN_LITERAL and '"' in token.text}
    free = {i for i in literals if any(a <= unit.tokens[i].start < b for a, b in host) and _is_free_text(unit, i)}
    fixed = {unit.tokens[i].text for i in literals - free}
    return {i for i in free if unit.tokens[i].text not in fixed}


def _is_free_text(unit: ParsedUnit, i: int) -> bool:
    """Whether a string literal means nothing to the compiler, nor to the program: no header, attribute or assembly, not
    compared or looked up, and no key."""
    if unit.cursor_kinds[i] in _NO_TEXT:
        return False
    before, after = (unit.tokens[j].text if 0 <= j < len(unit.tokens) else "" for j in (i - 1, i + 1))
    if before == "[" or (before, after) == ("{", ","):
        return False
    if {before, after} & _COMPARES or _DECIDES.search(_call_around(unit, i)):
        return False
    return not {neighbour.text for neighbour in unit.tokens[max(0, i - 2) : i]} & _TAKES_STRING


def _call_around(unit: ParsedUnit, i: int) -> str:
    """The name of the function whose call token i is an argument of; "" if it is in none."""
    depth = 0
    for j in range(i - 1, max(0, i - MOST_BEFORE), -1):
        depth += {")": 1, "(": -1}.get(unit.tokens[j].text, 0)
        if depth < 0:
            return unit.tokens[j - 1].text
        if unit.tokens[j].text in (";", "{", "}"):
            return ""
    return ""


def _is_name(word: re.Match[str]) -> bool:
    """Whether a word of a comment that is also an old name means it: of short and common words, only beside code."""
    if len(word[0]) > 2 and word[0].lower() not in _ENGLISH:
        return True
    before, after = word.string[: word.start()][-1:], word.string[word.end() :][:1]
    return before in _CODE or after in _CODE or word.string[: word.start()].endswith(("\\param ", "@param "))


def _is_name_in_literal(word: re.Match[str]) -> bool:
    """As in a comment, but a literal's first and last words stand beside its quotation marks, which mean nothing."""
    edge = word.string[word.start() - 1] == '"' or word.string[word.end()] == '"'
    return len(word[0]) > 2 and word[0].lower() not in _ENGLISH if edge else _is_name(word)


def _blank_token(token: Token, source: bytes) -> str:
    """Line ends stay, so that __LINE__ and directives keep their lines; two tokens never become one."""
    line = source[source.rfind(b"\n", 0, token.start) + 1 : token.start].strip()
    spliced = line.startswith(b"#") or token.text.startswith("//")
    return " " * token.text.startswith("/*") + ("\\\n" if spliced else "\n") * token.text.count("\n")
