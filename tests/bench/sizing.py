"""make bench-sizing: the plan against what engines logged at start, by engine, architecture and part.

Cases are in `tests/data/memory-cases.jsonl`, facts in `model-facts.json` and `model-configs.json` (read in the source
that each names); `model-aliases.json` says which facts are of which model id. Counted are the cases that are usable and
whose facts are sourced or computed; the rest is listed apart.

    weights   bytes of parameters in the precision, against what was loaded
    file      the same where the size of the GGUF file is given, as a hub gives it
    kv        bytes of a token
    kv-fork   the same where a fork of llama.cpp keeps more than llama.cpp: by a formula here, not by the plan
    tokens    how many tokens a named GPU holds
    total     peak of the process
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from tests.bench.sizing_cases import Case, cases
from tests.bench.sizing_parts import Error, parts

BOUNDS = {"weights": 0.02, "file": 0.02, "kv": 0.01, "kv-fork": 0.01, "tokens": 0.10, "total": 0.10}
# What a reader must know before these figures are called accuracy.
CAUTION = """
Not an independent test in two places. `tokens`: the figures of `sizing.overheads` were read off some of these cases
(vllm-llmd-*, vllm-10517-*, phi15, vllm-21348), as were the padding of MXFP4 and the rotary tables in `weights`.
`file` and `kv-fork`: the size of the file is given, and the fork's cache is computed here, not by the plan.
"""


@dataclass(frozen=True, slots=True)
class Measured:
    case: Case
    errors: tuple[Error, ...]


def measure() -> tuple[list[Measured], list[tuple[str, str]]]:
    """What counts, and the cases that do not with the reason."""
    counted, apart = [], []
    for case in cases():
        if case.apart:
            apart.append((case.id, case.apart))
        elif errors := parts(case):
            counted.append(Measured(case, tuple(errors)))
        else:
            apart.append((case.id, "nothing logged that a plan predicts"))
    return counted, apart


def rows(measured: list[Measured]) -> Iterator[tuple[str, str, list[float]]]:
    """(grouped by, part, errors as shares): all, then by engine, then by architecture."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for each in measured:
        for error in each.errors:
            for group in ("all", f"engine {each.case.engine}", f"architecture {each.case.family}"):
                found[group, error.part].append(abs(error.share))
    for (group, part), errors in sorted(found.items(), key=lambda item: (item[0][0] != "all", item[0])):
        yield group, part, errors


def p90(errors: list[float]) -> float:
    return sorted(errors)[max(0, -(-9 * len(errors) // 10) - 1)]


def within(errors: list[float], part: str) -> float:
    return sum(error <= BOUNDS[part] for error in errors) / len(errors)


def main() -> int:
    measured, apart = measure()
    print(f"{len(measured)} cases counted, {len(apart)} apart\n")
    print(f"{'':34} {'part':8} {'n':>3} {'median':>8} {'p90':>8} {'worst':>8}  within")
    for group, part, errors in rows(measured):
        figures = " ".join(f"{100 * each:7.2f}%" for each in (median(errors), p90(errors), max(errors)))
        print(f"{group:34} {part:8} {len(errors):3} {figures}  {within(errors, part):.0%} of {BOUNDS[part]:.0%}")
    print(CAUTION)
    print("Out of bounds")
    for each in measured:
        for error in each.errors:
            if abs(error.share) > BOUNDS[error.part]:
                print(f"  {each.case.id:36} {error.part:8} {100 * error.share:+7.1f}%  {each.case.note[:110]}")
    print("\nApart")
    for name, why in apart:
        print(f"  {name:36} {why}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
