"""Program texts apart from their names: tokens, the names that a file declares, and an id that renamed copies share."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache

from hipsynth.core.languages import TRITON, language_of

_PYTHON_TOKEN = re.compile(
    r"#[^\n]*|\"\"\".*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    r"|[A-Za-z_]\w*|\d(?:[\w.]|(?<=[eE])[+-])*|\S",
    re.DOTALL,
)
# Of character literals only a quotation mark is one token: ids of texts with others have counted theirs as several.
_TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'\\?\"'|[A-Za-z_]\w*|\d(?:[\w.']|[eEpP][+-])*|\S", re.DOTALL
)


def code_tokens(text: str) -> list[str]:
    """The tokens of a program without comments: of C++, or of Python in a script."""
    if language_of(text) == TRITON:
        return [t for t in _PYTHON_TOKEN.findall(text) if not t.startswith("#")]
    return [t for t in _TOKEN.findall(text) if not t.startswith(("//", "/*"))]


# Keywords that may precede a name without declaring it; below, names of the language and the HIP API.
_NOT_A_TYPE = frozenset(
    {"return", "else", "case", "goto", "new", "delete", "throw", "operator", "using", "typename", "sizeof", "not"}
)
_WORD_LIST = """
auto bool break char class const constexpr continue default do double enum extern false float for if inline int long
namespace nullptr private public restrict short signed size_t static struct switch template this true typedef union
unsigned void volatile while half include define ifdef ifndef endif pragma
threadIdx blockIdx blockDim gridDim warpSize std main x y z w
"""
_FIXED = _NOT_A_TYPE | frozenset(re.findall(r"\w+", _WORD_LIST))


def declared_names(words: Sequence[str]) -> set[str]:
    """Names that a file with the tokens `words` seems to declare, by a token-level heuristic: names after a type, and
    names in a list that are not called."""
    names = set()
    for before, word, after in zip(words[:-1], words[1:], [*words[2:], ""], strict=True):
        if not _is_name(word) or word in _FIXED or word.startswith(("__", "hip")):
            continue
        after_type = _is_name(before) and before not in _NOT_A_TYPE
        if after_type or (before in {"*", "&", ",", ">"} and after != "("):
            names.add(word)
    return names


def _is_name(word: str) -> bool:
    return word[0].isalpha() or word[0] == "_"


@lru_cache(maxsize=65536)
def canonical_id(text: str) -> str:
    """A hash that ignores comments, white space and the spelling of declared names (they are numbered by first use)."""
    words = code_tokens(text)
    declared = declared_names(words)
    order: dict[str, str] = {}
    canonical = " ".join(order.setdefault(w, f"n{len(order)}") if w in declared else w for w in words)
    return hashlib.sha256(canonical.encode()).hexdigest()
