"""The old names of commands and options, which still work."""

import pytest

from engine.cli.main import _OLD_VERBS


@pytest.mark.parametrize("verb", sorted(_OLD_VERBS))
def test_old_verb_runs_the_renamed_command(shell, verb):
    code, old_help, _ = shell(verb, "--help")
    assert code == 0
    _, new_help, _ = shell(_OLD_VERBS[verb], "--help")
    assert old_help.split(" ", 2)[2].partition("[")[2] == new_help.split(" ", 2)[2].partition("[")[2]


def test_help_lists_new_verbs_only(shell):
    _, out, _ = shell("--help")
    listed = {line.split()[0] for line in out.partition("Commands:")[2].splitlines() if line.strip()}
    assert set(_OLD_VERBS.values()) <= listed
    assert not set(_OLD_VERBS) & listed


@pytest.mark.parametrize(
    ("verb", "new", "old"),
    [
        ("replicate", "--rerun", "--again"),
        ("audit", "--shadow-models", "--references"),
        ("tune", "--public-corpus", "--development"),
        ("train", "--privacy-unit", "--private-scope"),
        ("train", "--constrained-decoding", "--well-formed"),
        ("train", "--tag-scheme", "--scheme"),
        ("train", "--context-window", "--window"),
    ],
)
def test_old_option_stays_beside_the_new_one(shell, verb, new, old):
    _, out, _ = shell(verb, "--help")
    assert out.index(new) < out.index(old)


def test_old_privacy_unit_selects_the_client_level_mechanism(shell, service):
    options = ("--corpus", "synthetic", "--clients", "3", "--private-scope", "platform", "--scheme", "bioes")
    assert shell("simulate", *options)[0] == 0
    (config,) = service.trained
    assert (config.privacy.mechanism, config.tagger.scheme) == ("secure-sum", "bioes")
