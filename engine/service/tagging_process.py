"""The process that tags texts of pages: ``python -m engine.service.tagging_process PUBLISHED``.

It answers one request after another, a line of JSON each, and keeps loaded taggers. It ends after ``IDLE_SECONDS``
without a request, and when the server ends, which closes its input. No text is written to a file.
"""

import json
import os
import queue
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine import memory
from engine.errors import EpsilonError
from engine.service.application import Application
from engine.service.tagging_client import IDLE_SECONDS
from engine.settings import Settings
from engine.tagging.entities import Tagged


def main() -> int:
    """Answer requests until none has come for ``IDLE_SECONDS``; return the exit code."""
    from engine.tagging.pipeline import TextTagger

    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output of libraries is not an answer
    app, number = Application(replace(Settings.from_environment(), published=Path(sys.argv[1]))), 0

    def say(**values: object) -> None:
        answers.write(json.dumps({"number": number, **values}) + "\n")
        answers.flush()

    tagger = TextTagger(app.settings, lambda stage: say(stage=stage))
    requests: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    while True:
        try:
            asked = json.loads(requests.get(timeout=IDLE_SECONDS))
        except queue.Empty:
            return 0
        number = asked["number"]
        tagged, missing = _tagged(app, tagger, asked["text"], asked["runs"])
        spans = next((each.spans for each in tagged.values()), ())
        fields = {
            run: {
                "tags": each.tags,
                "confidence": [round(share, 4) for share in each.confidence],
                "entities": [(one.start, one.end, one.type, round(one.score, 4)) for one in each.entities],
            }
            for run, each in tagged.items()
        }
        say(spans=spans, tagged=fields, missing=missing)
        memory.return_freed()


def _listen(requests: "queue.Queue[str]") -> None:
    """Queue requests; end the process at once when the input closes."""
    for line in sys.stdin:
        requests.put(line)
    os._exit(0)


def _tagged(
    app: Application, tagger: Any, text: str, identities: Sequence[str]
) -> tuple[dict[str, Tagged], dict[str, str]]:
    """Return the result of each tagger, and for unusable ones the reason."""
    models, missing = {}, {}
    for identity in identities:
        try:
            models[identity] = app.models.load(identity)
        except EpsilonError as error:
            missing[identity] = str(error)
    try:
        found = tagger.tag([text], list(models.values()))
        return {run: each[0] for run, each in zip(models, found, strict=True)}, missing
    except EpsilonError:  # for example without a language model, which others may not need
        tagged = {}
        for identity, model in models.items():
            try:
                tagged[identity] = tagger.tag([text], [model])[0][0]
            except EpsilonError as error:
                missing[identity] = str(error)
        return tagged, missing


if __name__ == "__main__":
    sys.exit(main())
