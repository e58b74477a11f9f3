"""A home in which names, tags, tokens, notes and errors are markup, formulas or control characters."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine import PLAIN_VERSION, PRIVATE_VERSION
from engine.cluster import supervisor
from engine.config import JOIN, FederationConfig, SimulationConfig, with_noise
from engine.records import Counts, EntityScores, RoundRecord
from engine.service import Application
from engine.settings import Settings
from tests.engine.factories import SMALL, provenance, record

OUTSIDE = "evil.example"
"""Host that no page may address."""
MARKUP = (
    "<b>Qqa",
    "<b>Qqb</b>",
    f"<img/src=//{OUTSIDE}/Qqc>",
    f'<a\ufeffhref="https://{OUTSIDE}/">Qqd</a>',
    "<script>Qqe</script>",
    "**Qqf**",
    "`Qqg`",
    f"[Qqh](https://{OUTSIDE}/)",
    f"![Qqi](https://{OUTSIDE}/)",
    f"https://{OUTSIDE}/Qqj",
    f"www.{OUTSIDE}/Qqk",
    f"Qql@{OUTSIDE}",
    "$Qqm$",
    ":red[Qqn]",
    ":material/home:Qqo",
    "~~Qqp~~",
    "&lt;Qqq&gt;",
    "%{x}Qqr",
    "=Qqs",
    "_Qqt_",
    "#Qqu",
    "1.Qqv",
    "-->Qqw",
)
"""Entity types and words; each has a word of its own, Qqa to Qqw."""
TITLE = f"=Rqa <b>Rqb **Rqc** $Rqd$ :red[Rqe] %{{x}}Rqf `Rqg` [Rqh](x) www.{OUTSIDE} \u202eRqi"
"""Name of a file."""
LONG = "x" * 10_000


def column_file(words: Sequence[str] = MARKUP, name: str = "Nr") -> str:
    """Return a corpus with these words as tokens and entity types."""
    sentence = "\n".join(f"{word}\tB-{word}" for word in words)
    return "# entity types: " + " ".join(words) + "\n" + "".join(f"{sentence}\n{name}{n}\tO\n\n" for n in range(30))


def scored(words: Sequence[str], correct: int) -> EntityScores:
    counts = {word: Counts(correct, 7, 8) for word in words}
    return EntityScores(counts, counts, {"O": Counts(9, 9, 9)} | {f"B-{word}": each for word, each in counts.items()})


def finished(number: int, words: Sequence[str], correct: int) -> RoundRecord:
    found = record(number, epsilon=0.5)
    test = scored(words, correct) if found.test else None
    return dataclasses.replace(found, scores=scored(words, correct), test=test)


def store(app: Application, config: SimulationConfig, words: Sequence[str], correct: int = 5) -> str:
    """Store a finished run without training."""
    identity = app.runs.submit(config).run_id
    claim = app._context.all_users_store.claim(identity, "here")
    for number in range(3):
        app._context.all_users_store.append(claim, finished(number, words, correct))
    version = PRIVATE_VERSION if config.privacy.private else PLAIN_VERSION
    made = provenance(app.queries.corpus(config).checksum, str(version))
    made = dataclasses.replace(made, machine=TITLE, command=TITLE)
    app._context.all_users_store.finish(claim, made)
    return identity


def fill(settings: Settings, folder: Path, words: Sequence[str] = MARKUP, title: str = TITLE) -> dict[str, str]:
    """Fill a home; return identities of runs and names of corpora."""
    folder.mkdir(exist_ok=True)
    outside = folder / f"{title}.conll"
    outside.write_text(column_file(words, "Mr"), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supervisor, "ensure_cluster", lambda *_: None)
        app = Application(settings)
        name, _ = app.corpora.add(f"{title}.conll", column_file(words).encode())
        own = dataclasses.replace(SMALL, corpus=name, data_fraction=1.0)
        by_path = dataclasses.replace(own, corpus=str(outside))
        runs = [
            store(app, dataclasses.replace(with_noise(each, sigma), seed=seed), words, correct=4 + seed)
            for each in (own, by_path)
            for sigma in (0.0, 1.0, 2.0)
            for seed in (0, 1)
        ]
        together = dataclasses.replace(
            own, corpus=f"{name}{JOIN}{outside}", federation=FederationConfig(clients=2), training=SMALL.training
        )
        federated = store(app, together, words)
        failed = app.runs.submit(dataclasses.replace(own, seed=9)).run_id
        app._context.all_users_store.fail(failed, f"{title} {' '.join(words)} {LONG}")
        for run in (*runs, failed):
            app.runs.write_note(run, "\n".join((title, *words)))
        app.close()
    return {"corpus": name, "own": runs[2], "path": runs[8], "federated": federated, "failed": failed}
