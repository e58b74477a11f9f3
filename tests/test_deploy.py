"""The files in docs/deploy match this repository's commands, settings, files and pinned Python."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
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
"""Python version of each Debian release."""
NOT_IN_THE_IMAGE = {".ci", "benchmarks", "federation", "tests"}
OTHER_VARIABLES = {"PORT", "PGPASSFILE", "STREAMLIT_SERVER_ADDRESS", "STREAMLIT_SERVER_HEADLESS"}
"""Environment variables of the server, libpq and Streamlit."""


def settings_variables() -> set[str]:
    text = (REPOSITORY / "engine/settings.py").read_text()
    files = {f"{name}_FILE" for name in re.findall(r'_address\("(EPSILON_\w+)"', text)}
    return files | set(re.findall(r'(?:environ\.get|_variable)\("(EPSILON_\w+)"', text))


def instructions(word: str) -> list[str]:
    """Return the arguments of each instruction of this kind in the Containerfile, with continuation lines joined."""
    return re.findall(rf"(?m)^{word} (.*)$", re.sub(r"\\\n\s*", "", IMAGE))


def project_services() -> dict[str, dict[str, Any]]:
    return {name: service for name, service in COMPOSE["services"].items() if service["image"] == "epsilon-explorer"}


def containers() -> Iterator[dict[str, Any]]:
    for item in OBJECTS:
        if item["kind"] == "Deployment":
            yield from item["spec"]["template"]["spec"]["containers"]


def is_valid_command(words: list[str]) -> bool:
    """Return whether the command line accepts these words, without running the command."""
    command, context = typer.main.get_command(app), None
    while isinstance(command, click.Group):
        command, words = command.commands[words[0]], words[1:]
    context = command.make_context("engine", list(words))
    return context.command is command


class TestImage:
    def test_python_is_the_pinned_version(self):
        (base,) = instructions("FROM")
        release = re.search(r"debian:(\w+)-slim$", base)
        project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
        assert release
        assert project["requires-python"].startswith(f">={PYTHONS[release[1]]},")

    def test_copies_exactly_the_program(self):
        copied = {word for step in instructions("COPY") for word in step.split()[1:-1]}
        assert all((REPOSITORY / name).exists() for name in copied)
        listed = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
        if listed.returncode:
            (pytest.fail if in_ci() else pytest.skip)("this is not a Git checkout")
        folders = {Path(line).parts[0] for line in listed.stdout.splitlines() if "/" in line}
        assert folders - NOT_IN_THE_IMAGE == {
            Path(name).parts[0] for name in copied if not (REPOSITORY / name).is_file()
        } | {"docs"}
        assert {"Makefile", "app.py", "requirements.txt"} <= copied
        assert not [name for name in copied if name in (".", "docs")]

    def test_make_targets_entry_point_and_user_exist(self):
        (made,) = (step for step in instructions("RUN") if step.startswith("make"))
        targets = re.findall(r"(?m)^([a-z-]+):", (REPOSITORY / "Makefile").read_text())
        assert set(made.split("&&")[0].split()[1:]) <= set(targets)
        assert instructions("CMD") == ['["engine.serve"]']
        assert instructions("USER") == ["epsilon"]
        assert f"--uid {USER} " in IMAGE

    def test_variables_are_settings(self):
        assert set(re.findall(r"([A-Z_]+)=", " ".join(instructions("ENV")))) <= settings_variables() | OTHER_VARIABLES


class TestCompose:
    def test_commands_are_valid(self):
        given = [service["command"] for service in project_services().values() if "command" in service]
        assert [words[0] for words in given] == ["engine", "engine"]
        assert all(is_valid_command(words[1:]) for words in given)

    def test_variables_are_settings(self):
        given = set().union(*(service["environment"] for service in project_services().values()))
        assert given <= settings_variables() | OTHER_VARIABLES
        assert {"EPSILON_ACCESS_FILE", "EPSILON_CLUSTER_KEY", "EPSILON_SCHEDULER", "EPSILON_STORE_URL"} <= given

    def test_secrets_volumes_and_services_are_defined(self):
        services, secrets, volumes = COMPOSE["services"], COMPOSE["secrets"], COMPOSE["volumes"]
        for service in services.values():
            assert set(service.get("secrets", [])) <= set(secrets)
            assert {volume.split(":")[0] for volume in service.get("volumes", [])} <= set(volumes)
            assert set(service.get("depends_on", {})) <= set(services)
            for value in map(str, service["environment"].values()):
                if value.startswith("/run/secrets/"):
                    assert value.removeprefix("/run/secrets/") in service["secrets"]
        build = services["dashboard"]["build"]
        assert (FOLDER / build["context"]).resolve() == REPOSITORY
        assert (REPOSITORY / build["dockerfile"]).is_file()
        hosts = {re.search(r"//(?:\w+@)?(\w+):", str(value)) for value in services["worker"]["environment"].values()}
        assert {host[1] for host in hosts if host} == {"database", "scheduler"}

    def test_deploy_md_names_each_secret_file(self):
        for secret in COMPOSE["secrets"].values():
            assert secret["file"] in TEXT
        assert f"chown {USER}" in TEXT

    def test_ports_are_published_on_loopback_only(self):
        published = {name: service["ports"] for name, service in COMPOSE["services"].items() if "ports" in service}
        assert published == {"dashboard": ["127.0.0.1:8501:8501"]}
        assert project_services()["dashboard"]["environment"]["PORT"] == "8501"


class TestKubernetes:
    def test_commands_are_valid(self):
        given = [container["args"] for container in containers()]
        assert [words[:3] for words in given] == [["engine", "cluster", "scheduler"], ["engine", "cluster", "worker"]]
        assert all(is_valid_command(words[1:]) for words in given)

    def test_variables_are_settings(self):
        given = {variable["name"] for container in containers() for variable in container["env"]}
        assert given <= settings_variables() | OTHER_VARIABLES

    def test_volumes_and_scheduler_service_are_defined(self):
        for item in OBJECTS:
            if item["kind"] == "Deployment":
                pod = item["spec"]["template"]["spec"]
                named = {volume["name"] for volume in pod["volumes"]}
                used = {
                    mount["name"]
                    for container in (*pod["initContainers"], *pod["containers"])
                    for mount in container["volumeMounts"]
                }
                assert used == named
                assert pod["securityContext"]["runAsUser"] == USER
        (service,) = (item for item in OBJECTS if item["kind"] == "Service")
        address = f"tls://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
        assert address in {variable["value"] for container in containers() for variable in container["env"]}


def test_deploy_md_names_its_files():
    for name in ("Containerfile", "compose.yaml", "kubernetes.yaml"):
        assert f"deploy/{name}" in TEXT


def home_with_key(home: Path) -> None:
    for name in ("runs.sqlite", "checkpoints/RUN.npz", "encoded/rows.npy", "cluster/key.pem"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()
    noise_keys.secrets_for(key_path(Settings(home=home, data_dir=None, store_url="sqlite://"), "RUN"), begun=False)


def test_backup_of_shared_files_has_no_noise_keys_and_is_owner_only(tmp_path: Path) -> None:
    """A key in a backup would outlive the run, which destroys its own copy."""
    parent, copies = tmp_path / "parent", tmp_path / "copies"
    copies.mkdir()
    home_with_key(parent)
    copy = re.search(r"^umask 077\ntar -C /mnt/epsilon (?:.*\\\n)?.* \.$", TEXT, re.M)
    assert copy
    subprocess.run(["sh", "-ec", copy.group(0).replace("/mnt/epsilon", str(parent))], cwd=copies, check=True)
    (made,) = copies.iterdir()
    with tarfile.open(made) as archive:
        kept = {Path(name).name for name in archive.getnames()}
    assert {"runs.sqlite", "RUN.npz"} <= kept
    assert not kept & {"RUN.key", "rows.npy", "key.pem"}
    assert made.stat().st_mode & 0o077 == 0


def test_commands_for_backup_and_restore_have_no_noise_keys_and_are_owner_only(tmp_path: Path) -> None:
    """Run the lines of deploy.md in another folder, as this user and without the service."""
    home_with_key(tmp_path / "runs")
    before, after = (
        re.search(rf"^```\n((?:systemctl .*\n|mv .*\n)*cd .*\n(?:.*\\\n)?.* -m engine {name} .*\n)", TEXT, re.M)
        for name in ("backup", "restore")
    )
    assert before
    assert after
    for lines in (before[1], after[1]):
        lines = re.sub("(?m)^systemctl .*$", "", lines).replace("runuser -u epsilon -- ", "")
        lines = lines.replace("/opt/epsilon-explorer", str(REPOSITORY)).replace(".venv/bin/python", sys.executable)
        lines = lines.replace("/var/lib/epsilon-explorer", str(tmp_path))
        subprocess.run(["sh", "-ec", f"umask 022\n{lines}"], check=True)
    with zipfile.ZipFile(tmp_path / "epsilon.zip") as archive:
        assert set(archive.namelist()) == {"runs.sqlite", "checkpoints/RUN.npz", "manifest.json"}
    restored = {path.name: path for path in (tmp_path / "runs").rglob("*") if path.is_file()}
    assert restored.keys() == {"runs.sqlite", "RUN.npz"}
    for path in (tmp_path / "epsilon.zip", tmp_path / "runs", *restored.values()):
        assert path.stat().st_mode & 0o077 == 0, path


def test_streamlit_config_listens_on_localhost_only() -> None:
    """Only ``engine.serve`` refuses other addresses where sign-in is disabled."""
    settings = tomllib.loads((REPOSITORY / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    assert settings["server"]["address"] == "localhost"
