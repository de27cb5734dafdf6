"""Makes plausible new identifiers from word lists, none of which is already used in the file or its headers."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count


def word_list(text: str) -> list[str]:
    """Splits a white-space-separated table of words."""
    return text.split()


_NOUNS = word_list("""
amount angle anchor area axis band basis batch beam bias bin blend block bound branch bucket budget bundle cell chain
channel chunk cluster coeff column corner counter cursor cycle datum decay degree delta density depth digit dose drift
edge element energy entry epoch error extent factor field filter flag flow flux force frame friction front gain gap
gate gauge grade gradient grain grid group guard head height history hop image index input interval item iteration
jump kernel key lane layer leaf length level limit line link load lookup loss margin mark mask mass matrix mean member
mesh metric mode moment momentum motion neighbor node noise norm number offset order origin output packet page pair
panel parcel part particle patch path payload peak period phase pitch pivot pixel plane plate point pool portion
position power pressure prior probe product profile pulse quantity quota radius rank rate ratio ray reach record
region remainder residual result reward ridge ring root row rule sample scale scan score seat section segment sensor
sequence series shape shard share shell shift side signal site size slab slice slope slot source span spectrum speed
spring stage state station stencil step stock stream stride strip sum surface symbol table tail target tensor term
thread threshold tick tile token total trace track transfer tree trend tuple turn unit update usage valley value
vector velocity vertex volume wave weight well width window word worker zone
""")

_MODIFIERS = word_list("""
active actual adjacent alpha base best beta big block broad bulk central clean close coarse cold common compact core
current damped deep dense direct dual early even exact extra far fast final fine first fixed flat free fresh full
global gross half heavy high hot inner joint known large last late lead left light linear live local long loose low
main major mean middle minor mixed moving narrow near nested net new next nominal odd old open outer packed padded
partial past peak plain prev primary prime pure quick rapid raw ready recent right rough safe scaled second shared
sharp short shown single slow small smooth solid spare sparse split stable static steady still strict sub tight
tiny total true upper vast warm weak wide
""")

_VERBS = word_list("""
accumulate add adjust advance apply assemble balance blend bound build cache clamp collect combine compare compose
compress compute convert copy count crop damp derive diffuse dispatch distribute divide emit estimate evaluate expand
extract fill filter find fit fold form gather grow integrate join lift limit load locate map mark measure merge mix
move normalize offset pack paint pick place plan prepare process project propagate push rank reduce refine relax
render resolve restore rotate route sample scale scan scatter score select shade shift shrink smooth solve sort spread
stage step store stretch sum sweep tally trace transform transfer turn update verify visit warp weigh write
""")

_SHORT = word_list("""
a b c d e f g h i j k m n p q r s t u v w x y z aa bb cc dx dy dz gx gy id ii jj kk lo hi lx ly nx ny nz px py qx qy
acc arg buf cnt col cur dst elt fac idx inc jdx len lhs msk nbr num off out pos ptr rem res rhs seg src tmp tot val vec
""")

# Names that the language, the system headers or the HIP launch syntax define.
RESERVED = frozenset(
    word_list("""
    alignas alignof and and_eq asm assert auto bitand bitor bool break case catch char char8_t char16_t char32_t class
    co_await co_return co_yield compl concept const consteval constexpr constinit const_cast continue decltype default
    defined delete do double dynamic_cast else enum errno explicit export extern false float final for friend goto if
    import inline int long main module mutable namespace new noexcept not not_eq nullptr operator or or_eq override
    private protected public register reinterpret_cast requires restrict return short signed sizeof static static_assert
    static_cast std struct switch template this thread_local throw true try typedef typeid typename union unsigned using
    virtual void volatile wchar_t while xor xor_eq threadIdx blockIdx blockDim gridDim warpSize dim3 linux unix
    environ stdin stdout stderr NULL EOF TRUE FALSE half
    """)
)


class Namer:
    """Makes unique names in one random naming style. `taken(name)` tells whether a name is already in use;
    `local_taken`, which the caller may replace, does so for local names."""

    def __init__(self, rng: random.Random, taken: Callable[[str], bool]) -> None:
        self.rng = rng
        self.taken = taken
        self.local_taken = taken
        self.given: set[str] = set()
        self.camel = rng.random() < 0.45
        self.kernel_suffix = rng.choice(("", "", "_kernel", "Kernel", "_gpu"))
        self.type_suffix = rng.choice(("", "", "", "_t"))
        self.short_share = rng.choice((0.1, 0.35, 0.6))

    def make(self, category: str, *, local: bool = False) -> str:
        """A new name in the style of `category` ("variable", "parameter", "function", "kernel", "type", "macro", ...).

        A `local` name is visible in one function only, so it may also occur in headers.
        """
        taken = self.local_taken if local else self.taken
        for attempt in count():
            name = self._compose(category, attempt)
            if name not in self.given and name not in RESERVED and not taken(name):
                self.given.add(name)
                return name
        raise AssertionError("unreachable: names never run out")

    def _compose(self, category: str, attempt: int) -> str:
        words = self._words(category, attempt)
        if category in ("macro", "constant"):
            return "_".join(words).upper()
        if category == "type":
            return self._snake(words) + "_t" if self.type_suffix else self._pascal(words)
        if category == "type parameter":
            return self._pascal(words)
        if category == "kernel":
            return self._identifier(words) + self.kernel_suffix
        return self._identifier(words)

    def _words(self, category: str, attempt: int) -> list[str]:
        rng = self.rng
        noun, modifier = rng.choice(_NOUNS), rng.choice(_MODIFIERS)
        if category in ("function", "method", "kernel"):
            words = [rng.choice(_VERBS), noun]
        elif category in ("variable", "parameter", "macro parameter", "label") and rng.random() < self.short_share:
            words = [rng.choice(_SHORT)]
        elif rng.random() < 0.35:
            words = [noun]
        else:
            words = [modifier, noun]
        if attempt > 4:
            words = [*words, rng.choice(_NOUNS)]
        if attempt > 40:
            words = [*words, str(rng.randrange(2, 10 + attempt))]
        return words

    def _identifier(self, words: list[str]) -> str:
        return words[0] + self._pascal(words[1:]) if self.camel else self._snake(words)

    @staticmethod
    def _snake(words: list[str]) -> str:
        return "_".join(words)

    @staticmethod
    def _pascal(words: list[str]) -> str:
        return "".join(w[:1].upper() + w[1:] for w in words)
