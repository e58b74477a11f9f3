"""The paper's tables beside what was measured, as text."""

from collections.abc import Iterable

from engine.experiments.paper import TABLES, Measured, older_text, setting_text
from engine.reports.numbers import epsilon_text


def paper_text(found: Iterable[Measured]) -> str:
    """The paper's tables for a shell."""
    lines, last, found = [], "", list(found)
    for each in found:
        if each.cell.table != last:
            last = each.cell.table
            lines += [
                "",
                f"{last}: {TABLES[last]}",
                f"{'':24}{'printed F1':>11}{'same metric':>20}{'entities':>20}{'ε':>9}",
            ]
        ours = [spread.f1_text for spread in (each.token, each.entity) if spread]
        epsilon = "" if each.epsilon is None else epsilon_text(each.epsilon)
        floor = f"   finding nothing: {each.floor.f1:.3f}, seeds: {each.seeds_text}" if each.floor else "not run yet"
        lines.append(
            f"{setting_text(each.cell):24}{each.cell.published['f1']:11.3f}"
            + "".join(f"{text:>20}" for text in ours or ("", ""))
            + f"{epsilon:>9}{floor}"
        )
    older = older_text(run for each in found for run in each.runs)
    return "\n".join([*lines[1:], *(["", older] if older else [])])
