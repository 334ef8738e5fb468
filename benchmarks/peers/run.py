"""Compare depthrank, with no options, with what else the registry offers, on the same splits.

    python -m benchmarks.peers.run --out benchmarks/peers/recorded

Every peer is tuned on the same validation cells with the same CPU allowance. Seconds are CPU
seconds of a process of its own for each table and peer, tuning included; memory is its peak.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("OMP_NUM_THREADS", "1")


def one(table: str, solver: str, seeds: int, allowance: float, movielens: str | None) -> Any:
    """Run one solver on all splits of one table; this process does nothing else."""
    from benchmarks.peers.data import tables
    from benchmarks.peers.solvers import tuned

    rows = []
    for seed in range(seeds):
        try:
            train, test = tables(movielens)[table](seed)
        except (ImportError, FileNotFoundError) as problem:
            return {"splits": [], "failed": [str(problem)], "peak_mb": 0}
        rows.append(tuned(solver, train, test, seed, allowance))
        if np.isnan(rows[-1]["rmse"]) and seed == 0:
            break
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"splits": rows, "peak_mb": round(peak)}


def line(table: str, solver: str, found: Any) -> str:
    """Return a line of the table."""
    splits = found.get("splits", [])
    errors = np.array([s["rmse"] for s in splits])
    if not len(errors) or np.isnan(errors).all():
        why = (splits[0]["failed"] if splits else found.get("failed", ["failed"]))[:1]
        return f"| {table} | {solver} | - | - | - | - | {''.join(why)} |"
    mean = float(np.nanmean(errors))
    half = 2.78 * float(np.nanstd(errors, ddof=1)) / np.sqrt(len(errors)) if len(errors) > 1 else 0
    fit, all_ = (np.mean([s[k] for s in splits]) for k in ("fit_seconds", "all_seconds"))
    notes = "; ".join(dict.fromkeys(f for s in splits for f in s["failed"]))[:80]
    return (
        f"| {table} | {solver} | {mean:.4g} ± {half:.2g} | {fit:.2f} | {all_:.1f} | "
        f"{found['peak_mb']} | {notes} |"
    )


def main() -> None:
    """Run all, one process each, and write the record as it grows."""
    from benchmarks.peers.data import tables
    from benchmarks.peers.solvers import SOLVERS

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/peers/recorded"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--allowance", type=float, default=5.0, help="CPU seconds of tuning")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds for a table and peer")
    parser.add_argument("--movielens", help="u.data of MovieLens-100K")
    parser.add_argument("--tables", nargs="*")
    parser.add_argument("--solvers", nargs="*")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        found = one(*given.one, given.seeds, given.allowance, given.movielens)
        print(json.dumps(found))
        return
    record: dict[str, Any] = {}
    if given.out.with_suffix(".json").exists():
        record = json.loads(given.out.with_suffix(".json").read_text())
    for table in given.tables or tables(given.movielens):
        for solver in given.solvers or SOLVERS:
            words = [sys.executable, "-m", "benchmarks.peers.run", "--one", table, solver]
            words += ["--seeds", str(given.seeds), "--allowance", str(given.allowance)]
            words += ["--movielens", given.movielens] if given.movielens else []
            try:
                run = subprocess.run(words, capture_output=True, text=True, timeout=given.limit)
                found = json.loads(run.stdout.splitlines()[-1])
            except subprocess.TimeoutExpired:
                found = {"splits": [], "failed": [f"more than {given.limit:.0f} s"]}
            except (IndexError, ValueError):
                found = {"splits": [], "failed": [f"exit {run.returncode}: {run.stderr[-80:]}"]}
            record.setdefault(table, {})[solver] = found
            print(line(table, solver, found), flush=True)
            write(given.out, record)


def write(out: Path, record: dict[str, Any]) -> None:
    """Write the record as JSON and as a table."""
    head = "| table | solver | RMSE, 95 % | fit, CPU s | with tuning | peak MB | notes |\n"
    lines = [line(t, s, found) for t, solvers in record.items() for s, found in solvers.items()]
    out.with_suffix(".md").write_text(head + "|---" * 7 + "|\n" + "\n".join(lines) + "\n")
    out.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
