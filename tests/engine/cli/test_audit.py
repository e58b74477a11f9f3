"""`audit` with a fake service: arguments, stored results and output."""

import json
import math
from dataclasses import replace

import pytest

from engine.service import Application
from tests.engine.store.test_audits import AUDIT, CANARIES, MEMBERSHIP

TRAINING = ("--corpus", "synthetic", "--tagger", "linear-crf", "--batch-size", "64", "--epochs", "2")
CLAIMED = replace(CANARIES, claimed=2.0)


def fake_audit(config, settings, number, references, *, command, model, tell):
    """Return a made-up audit of this configuration, with the requested attacks."""
    run_id = Application(settings).queries.identity(config)
    audit = replace(AUDIT, run_id=run_id, config=config, command=command, server=None)
    canaries = {"white": CLAIMED, "black": replace(CLAIMED, kind="sentences")} if number != 0 else {"white": None}
    return replace(audit, **canaries, membership=replace(MEMBERSHIP, references=references) if references else None)


def test_audit_of_a_known_epsilon_prints_how_often_the_bound_held(shell):
    command = ("audit", "--mechanism", "gaussian", "--epsilon", "3", "--repetitions", "5")
    code, out, _ = shell(*command, "--json")
    printed = json.loads(out)
    assert code == 0
    assert set(printed) == {"coverage", "bound_median", "epsilon"}
    assert printed["epsilon"] == 3
    assert 1.5 < printed["bound_median"] <= 3
    code, out, _ = shell(*command)
    assert code == 0
    assert f"{100 * printed['coverage']:.1f} %" in out
    assert f"{printed['bound_median']:.3g}" in out


def test_audit_prints_and_stores_its_results(shell, service, settings):
    service.audit.side_effect = fake_audit
    command = ("audit", *TRAINING, "--noise-multiplier", "0", "--canaries", "100", "--shadow-models", "3")
    code, out, _ = shell(*command, "--json")
    printed = json.loads(out)
    (call,) = service.audit.call_args_list
    config, _, canaries, references = call.args
    assert code == 0
    assert (canaries, references, call.kwargs["model"]) == (100, 3, None)
    assert (config.tagger.name, config.training.batch_size, config.privacy.private) == ("linear-crf", 64, False)
    (stored,) = Application(settings).audits.all().values()
    assert printed["run_id"] == stored.run_id == Application(settings).queries.identity(config)
    assert printed["command"] == stored.command
    assert stored.command.endswith("--canaries 100 --shadow-models 3")
    assert printed["white"]["claimed"] == 2.0
    assert printed["membership"]["references"] == stored.membership.references == 3
    assert printed["server"] is None


def test_audit_prints_null_for_an_epsilon_without_noise(shell, service, settings):
    service.audit.side_effect = lambda *args, **options: replace(
        fake_audit(*args, **options), white=CANARIES, black=None, membership=replace(MEMBERSHIP, claimed=math.inf)
    )
    printed = json.loads(shell("audit", *TRAINING, "--noise-multiplier", "0", "--json")[1])
    assert printed["white"]["claimed"] is None
    assert printed["membership"]["claimed"] is None
    (stored,) = Application(settings).audits.all().values()
    assert math.isinf(stored.white.claimed)


def test_audit_prints_whether_the_claim_is_contradicted(shell, service):
    service.audit.side_effect = fake_audit
    code, out, _ = shell("audit", *TRAINING)
    assert code == 0
    assert "not contradicted" in out
    assert "claimed ε = 2" in out
    config, _, canaries, references = service.audit.call_args.args
    assert (canaries, references, config.privacy.private) == (None, 0, True)


def test_audit_that_contradicts_its_claim_is_exit_code_1(shell, service):
    service.audit.side_effect = lambda *args, **options: replace(
        fake_audit(*args, **options), white=replace(CLAIMED, bound=2.5)
    )
    code, out, _ = shell("audit", *TRAINING, "--json")
    assert json.loads(out)["white"]["contradicted"] is True
    assert "not contradicted" not in shell("audit", *TRAINING)[1]
    assert code == 1


@pytest.mark.parametrize("references", [0, 3])
def test_audit_of_a_run_attacks_its_configuration(shell, service, trained_settings, references):
    service.audit.side_effect = fake_audit
    run_id = json.loads(shell("submit", "--corpus", "synthetic", "--epochs", "1", "--json")[1])["run_id"]
    code, out, err = shell("audit", "--run", run_id, "--shadow-models", references, "--json")
    assert code == 0, err
    assert json.loads(out)["run_id"] == run_id
    (call,) = service.audit.call_args_list
    assert call.args[0].training.epochs == 1.0
    assert f"--run {run_id}" in call.kwargs["command"]
