"""What docs/deploy has for machines is held against what is here: commands, settings, files, the pinned Python."""

import re
import subprocess
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import typer.main
import yaml

from engine.cli.main import app
from engine.settings import REPOSITORY, Settings
from engine.store import noise_keys
from engine.store.paths import key_path
from tests.browser.chromium import in_ci

FOLDER = REPOSITORY / "docs" / "deploy"
IMAGE = (FOLDER / "Containerfile").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
OBJECTS = list(yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text(encoding="utf-8")))
TEXT = (REPOSITORY / "docs" / "deploy.md").read_text(encoding="utf-8")
USER = 10001
PYTHONS = {"bookworm": "3.11"}
"""Of Debian's releases."""
NOT_IN_THE_IMAGE = {".ci", "benchmarks", "federation", "tests"}
OTHERS = {"PORT", "PGPASSFILE", "STREAMLIT_SERVER_ADDRESS", "STREAMLIT_SERVER_HEADLESS"}
"""Variables of the server, of libpq and of Streamlit."""


def settings_of_ours() -> set[str]:
    text = (REPOSITORY / "engine/settings.py").read_text()
    return set(re.findall(r'(?:environ\.get|_variable)\("(EPSILON_\w+)"', text))


def steps(word: str) -> list[str]:
    """Of the image: what follows this word, lines that go on joined."""
    return re.findall(rf"(?m)^{word} (.*)$", re.sub(r"\\\n\s*", "", IMAGE))


def ours() -> dict[str, dict[str, Any]]:
    return {name: each for name, each in COMPOSE["services"].items() if each["image"] == "epsilon-explorer"}


def containers() -> Iterator[dict[str, Any]]:
    for each in OBJECTS:
        if each["kind"] == "Deployment":
            yield from each["spec"]["template"]["spec"]["containers"]


def understood(words: list[str]) -> bool:
    """Whether our command line takes these words; nothing is done."""
    command, context = typer.main.get_command(app), None
    while isinstance(command, click.Group):
        command, words = command.commands[words[0]], words[1:]
    context = command.make_context("engine", list(words))
    return context.command is command


class TestTheImage:
    def test_it_has_the_python_that_is_pinned(self):
        (base,) = steps("FROM")
        release = re.search(r"debian:(\w+)-slim$", base)
        project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
        assert release
        assert project["requires-python"].startswith(f">={PYTHONS[release[1]]},")

    def test_all_that_the_program_is_of_is_in_it_and_no_more(self):
        copied = {word for step in steps("COPY") for word in step.split()[1:-1]}
        assert all((REPOSITORY / each).exists() for each in copied)
        listed = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
        if listed.returncode:
            (pytest.fail if in_ci() else pytest.skip)("this is no checkout of git")
        folders = {Path(line).parts[0] for line in listed.stdout.splitlines() if "/" in line}
        assert folders - NOT_IN_THE_IMAGE == {
            Path(each).parts[0] for each in copied if not (REPOSITORY / each).is_file()
        } | {"docs"}
        assert {"Makefile", "app.py", "requirements.txt"} <= copied
        assert not [each for each in copied if each in (".", "docs")]

    def test_its_targets_and_programs_are_there(self):
        (made,) = (step for step in steps("RUN") if step.startswith("make"))
        targets = re.findall(r"(?m)^([a-z-]+):", (REPOSITORY / "Makefile").read_text())
        assert set(made.split("&&")[0].split()[1:]) <= set(targets)
        assert steps("CMD") == ['["engine.serve"]']
        assert steps("USER") == ["epsilon"]
        assert f"--uid {USER} " in IMAGE

    def test_its_variables_are_settings(self):
        assert set(re.findall(r"([A-Z_]+)=", " ".join(steps("ENV")))) <= settings_of_ours() | OTHERS


class TestCompose:
    def test_commands_are_understood(self):
        given = [each["command"] for each in ours().values() if "command" in each]
        assert [words[0] for words in given] == ["engine", "engine"]
        assert all(understood(words[1:]) for words in given)

    def test_variables_are_settings(self):
        given = set().union(*(each["environment"] for each in ours().values()))
        assert given <= settings_of_ours() | OTHERS
        assert {"EPSILON_ACCESS_FILE", "EPSILON_CLUSTER_KEY", "EPSILON_SCHEDULER", "EPSILON_STORE_URL"} <= given

    def test_what_it_names_is_there(self):
        services, secrets, volumes = COMPOSE["services"], COMPOSE["secrets"], COMPOSE["volumes"]
        for each in services.values():
            assert set(each.get("secrets", [])) <= set(secrets)
            assert {volume.split(":")[0] for volume in each.get("volumes", [])} <= set(volumes)
            assert set(each.get("depends_on", {})) <= set(services)
            for value in map(str, each["environment"].values()):
                if value.startswith("/run/secrets/"):
                    assert value.removeprefix("/run/secrets/") in each["secrets"]
        build = services["dashboard"]["build"]
        assert (FOLDER / build["context"]).resolve() == REPOSITORY
        assert (REPOSITORY / build["dockerfile"]).is_file()
        places = {re.search(r"//(?:\w+@)?(\w+):", str(value)) for value in services["worker"]["environment"].values()}
        assert {found[1] for found in places if found} == {"database", "scheduler"}

    def test_each_secret_is_told_in_the_text(self):
        for secret in COMPOSE["secrets"].values():
            assert secret["file"] in TEXT
        assert f"chown {USER}" in TEXT

    def test_this_machine_alone_reaches_it(self):
        published = {name: each["ports"] for name, each in COMPOSE["services"].items() if "ports" in each}
        assert published == {"dashboard": ["127.0.0.1:8501:8501"]}
        assert ours()["dashboard"]["environment"]["PORT"] == "8501"


class TestKubernetes:
    def test_commands_are_understood(self):
        given = [each["args"] for each in containers()]
        assert [words[:3] for words in given] == [["engine", "cluster", "scheduler"], ["engine", "cluster", "worker"]]
        assert all(understood(words[1:]) for words in given)

    def test_variables_are_settings(self):
        given = {one["name"] for each in containers() for one in each["env"]}
        assert given <= settings_of_ours() | OTHERS

    def test_volumes_and_the_scheduler_are_there(self):
        for each in OBJECTS:
            if each["kind"] == "Deployment":
                pod = each["spec"]["template"]["spec"]
                named = {volume["name"] for volume in pod["volumes"]}
                used = {
                    one["name"] for part in (*pod["initContainers"], *pod["containers"]) for one in part["volumeMounts"]
                }
                assert used == named
                assert pod["securityContext"]["runAsUser"] == USER
        (service,) = (each for each in OBJECTS if each["kind"] == "Service")
        address = f"tls://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
        assert address in {one["value"] for each in containers() for one in each["env"]}


def test_files_that_are_told_in_the_text_are_there():
    for name in ("Containerfile", "compose.yaml", "kubernetes.yaml"):
        assert f"deploy/{name}" in TEXT


def test_a_copy_has_no_keys_of_noise_and_is_its_owners_alone(tmp_path: Path) -> None:
    """A key in a copy would outlive the run that destroys its own."""
    home = tmp_path / "runs"
    for name in ("runs.sqlite", "checkpoints/RUN.npz", "encoded/rows.npy"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()
    noise_keys.secrets_for(key_path(Settings(home=home, data_dir=None, store_url="sqlite://"), "RUN"), begun=False)
    copy = re.search(r"^umask 077\ntar (?:.*\\\n)?.*runs$", TEXT, re.M)
    assert copy
    command = copy.group(0).replace("/var/lib/epsilon-explorer", str(tmp_path))
    subprocess.run(["sh", "-ec", command], cwd=tmp_path, check=True)
    made = tmp_path / "epsilon.tar.gz"
    with tarfile.open(made) as archive:
        kept = {Path(name).name for name in archive.getnames()}
    assert {"runs.sqlite", "RUN.npz"} <= kept
    assert not kept & {"RUN.key", "rows.npy"}
    assert made.stat().st_mode & 0o077 == 0


def test_streamlit_started_by_hand_listens_here_alone() -> None:
    """Only ``engine.serve`` refuses other addresses until people sign in."""
    settings = tomllib.loads((REPOSITORY / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    assert settings["server"]["address"] == "localhost"
