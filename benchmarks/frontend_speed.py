"""How many programs per second one core renames, proof by a second parse included.

    python benchmarks/frontend_speed.py [FOLDER] [--json]

FOLDER is a folder of programs (default: corpus/handwritten), such as `synth generate` makes. A warm-up pass builds the
precompiled preambles and is not timed. Prints programs/s and milliseconds per program: of parsing, libclang's share of
it, planning, and renaming with verification.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from hipsynth.core.program import iter_programs
from hipsynth.source.clang import DETAILED_RECORD, INCOMPLETE, TU
from hipsynth.source.config import frontend_config
from hipsynth.source.parse import ALWAYS, HOST, VIRTUAL, ParseConfig, parse_source
from hipsynth.source.preambles import includes_of, preamble_of
from hipsynth.synth.frontend.passes.rename import plan_renaming, rename_unit

REPOSITORY = Path(__file__).resolve().parents[1]


def measure_stages(texts: list[bytes], config: ParseConfig) -> dict[str, float]:
    """Milliseconds of CPU time per program and stage, and programs/s, over all texts that parse."""
    units = [u for u in (parse_source(t, config)[0] for t in texts) if u is not None]
    for unit in units[:5]:
        rename_unit(unit, config, 0)
    started = time.process_time()
    units = [u for u in (parse_source(u.text, config)[0] for u in units) if u is not None]
    parsed = time.process_time()
    for unit in units:
        parse_text(unit.text, config)
    alone = time.process_time() - parsed
    started += alone
    parsed += alone
    for unit in units:
        plan_renaming(unit, 1)
    planned = time.process_time()
    for unit in units:
        rename_unit(unit, config, 1)
    ended_at = time.process_time()
    count = len(units)
    return {
        "programs": count,
        "parse_ms": 1e3 * (parsed - started) / count,
        "libclang_alone_ms": 1e3 * alone / count,
        "plan_ms": 1e3 * (planned - parsed) / count,
        "rename_and_proof_ms": 1e3 * (ended_at - planned) / count,
        "programs_per_second": count / (parsed - started + ended_at - planned),
        "copies_per_second_of_one_base": count / (ended_at - planned),
    }


def parse_text(text: bytes, config: ParseConfig) -> None:
    """Lets libclang parse a text and reads nothing of the result."""
    args = (*config.args, *HOST, *ALWAYS)
    preamble = preamble_of(includes_of(text), args, config.cache)
    extra = ("-Xclang", "-include-pch", "-Xclang", str(preamble.path)) if preamble else ()
    TU(VIRTUAL, text, args + extra, DETAILED_RECORD | INCOMPLETE).close()


def main() -> None:
    arguments = [a for a in sys.argv[1:] if a != "--json"]
    folder = Path(arguments[0]) if arguments else REPOSITORY / "corpus" / "handwritten"
    result = measure_stages([p.text.encode() for p in iter_programs(folder)], frontend_config())
    if "--json" in sys.argv:
        print(json.dumps(result, indent=2))
        return
    for name, value in result.items():
        print(f"{name:32} {value:10.1f}")


if __name__ == "__main__":
    main()
