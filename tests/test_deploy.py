"""The files in docs/deploy have valid schemas, and match this repository's commands, settings, files and Python."""

import importlib
import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
import compose_spec
import pytest
import typer.main
import yaml

from engine.cli.main import app
from engine.cluster import remote_workers
from engine.settings import REPOSITORY, Settings
from engine.setup import install
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
OTHER_VARIABLES = {
    "NUMBA_CACHE_LOCATOR_CLASSES",
    "PGPASSFILE",
    "PORT",
    "STREAMLIT_SERVER_ADDRESS",
    "STREAMLIT_SERVER_HEADLESS",
}
"""Environment variables of the server, libpq, Numba and Streamlit."""
HEALTH = "/_stcore/health"
HOME = "/var/lib/epsilon-explorer"
WRITTEN = {f"{HOME}/runs", f"{HOME}/shared", f"{HOME}/.cache", "/tmp"}
"""Folders that the program's processes write; the rest of a container's file system is read-only."""
VERSIONS = ("1.29", "1.37")
"""Oldest and newest version of Kubernetes whose schemas are checked."""


def settings_variables() -> set[str]:
    text = (REPOSITORY / "engine/settings.py").read_text()
    files = {f"{name}_FILE" for name in re.findall(r'_address\("(EPSILON_\w+)"', text)}
    return files | set(re.findall(r'(?:environ\.get|_variable)\("(EPSILON_\w+)"', text))


def instructions(word: str) -> list[str]:
    """Return the arguments of each instruction of this kind in the Containerfile, with continuation lines joined."""
    return re.findall(rf"(?m)^{word} (.*)$", re.sub(r"\\\n\s*", "", IMAGE))


def project_services() -> dict[str, dict[str, Any]]:
    return {name: service for name, service in COMPOSE["services"].items() if service["image"] == "epsilon-explorer"}


def pods() -> dict[str, dict[str, Any]]:
    """Return the pod of each set of pods, by name."""
    return {
        item["metadata"]["name"]: item["spec"]["template"]
        for item in OBJECTS
        if item["kind"] in ("Deployment", "StatefulSet")
    }


def containers() -> Iterator[dict[str, Any]]:
    for pod in pods().values():
        yield from pod["spec"]["containers"]


def objects(kind: str) -> dict[str, dict[str, Any]]:
    """Return the specification of each Kubernetes object of a kind, by name."""
    return {item["metadata"]["name"]: item["spec"] for item in OBJECTS if item["kind"] == kind}


def is_below(path: str, folders: set[str]) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)


def gibibytes(text: str) -> float:
    """Return an amount of memory of compose, systemd or Kubernetes in GiB."""
    number, unit = re.fullmatch(r"([\d.]+)([kKmMgG])i?", text).groups()
    return float(number) / {"k": 2**20, "m": 2**10, "g": 1}[unit.lower()]


def is_valid_command(words: list[str]) -> bool:
    """Return whether the command line accepts these words, without running the command."""
    command, context = typer.main.get_command(app), None
    while isinstance(command, click.Group):
        command, words = command.commands[words[0]], words[1:]
    context = command.make_context("engine", list(words))
    return context.command is command


class TestImage:
    def test_python_is_the_pinned_version(self):
        (base,) = (line for line in instructions("ARG") if line.startswith("DEBIAN="))
        release = re.search(r"debian:(\w+)-slim$", base)
        project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
        assert release
        assert project["requires-python"].startswith(f">={PYTHONS[release[1]]},")
        assert {step.split(" AS ")[0] for step in instructions("FROM")} == {"${DEBIAN}", "system"}

    def test_copies_exactly_the_program(self):
        copied = {word for step in instructions("COPY") if "--from" not in step for word in step.split()[:-1]}
        assert all((REPOSITORY / name).exists() for name in copied)
        listed = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
        if listed.returncode:
            (pytest.fail if in_ci() else pytest.skip)("this is not a Git checkout")
        folders = {Path(line).parts[0] for line in listed.stdout.splitlines() if "/" in line}
        assert folders - NOT_IN_THE_IMAGE == {
            Path(name).parts[0] for name in copied if not (REPOSITORY / name).is_file()
        } | {"docs"}
        assert {"app.py", "requirements.txt"} <= copied
        assert not [name for name in copied if name in (".", "docs")]

    def test_modules_lists_and_user_exist(self):
        steps = " ".join(instructions("RUN"))
        modules = re.findall(r"-m (engine[\w.]+)", steps)
        assert {"engine.setup.install", "engine.setup.system_packages"} == set(modules)
        assert all((REPOSITORY / f"{module.replace('.', '/')}.py").is_file() for module in modules)
        assert all((REPOSITORY / name).is_file() for name in re.findall(r"-r (\S+)", steps))
        assert instructions("CMD") == ['["engine.serve"]']
        assert instructions("USER") == [str(USER)]
        assert f"--uid {USER} " in IMAGE
        (check,) = instructions("HEALTHCHECK")
        assert HEALTH in check

    def test_argument_selects_a_small_installation(self, monkeypatch):
        (given,) = (line.removeprefix("PARTS=") for line in instructions("ARG") if line.startswith("PARTS="))
        selected = []
        monkeypatch.setattr(install.setup_status, "alone", lambda waiting: nullcontext())
        monkeypatch.setattr(install, "install_packages", lambda listed, light: selected.append(light) is None)
        monkeypatch.setattr(install, "make_missing", lambda over, small: selected.append(small) or {})
        assert install.main([given]) == install.main([]) == 0
        assert selected == [True, True, False, False]
        assert "--build-arg PARTS=" in TEXT

    def test_compiled_code_is_read_by_the_class_that_the_image_names(self):
        named = re.search(r"NUMBA_CACHE_LOCATOR_CLASSES=([\w.]+),", IMAGE)
        assert named
        module, _, name = named[1].rpartition(".")
        assert hasattr(importlib.import_module(module), name)

    def test_variables_are_settings(self):
        assert set(re.findall(r"([A-Z_]+)=", " ".join(instructions("ENV")))) <= settings_variables() | OTHER_VARIABLES


class TestCompose:
    def test_schema_is_valid(self):
        """The parser refuses unknown fields and values of another type."""
        compose_spec.PyCompose.from_json(json.dumps(COMPOSE)).validate()
        with pytest.raises(ValueError, match="mem_limt"):
            compose_spec.PyCompose.from_json(json.dumps({"services": {"one": {"image": "a", "mem_limt": "1g"}}}))

    def test_services_are_confined(self):
        """Only the folders that the program writes are writable, and memory, processor and processes have limits."""
        for name, service in COMPOSE["services"].items():
            assert service["read_only"] is True, name
            assert service["security_opt"] == ["no-new-privileges:true"], name
            assert service["cpus"] > 0
            assert service["pids_limit"] > 0
            assert gibibytes(service["mem_limit"]) >= 1
        for name, service in project_services().items():
            assert service["cap_drop"] == ["ALL"], name
            writable = {entry.split(":")[int(entry[0] != "/")] for entry in (*service["volumes"], *service["tmpfs"])}
            assert writable == WRITTEN, name
            assert all(f"uid={USER}" in entry for entry in service["tmpfs"] if entry.startswith(HOME))
            limits = f"{gibibytes(service['mem_limit']):g} GiB"
            assert limits in table_row(name), name

    def test_health_checks_fit_their_services(self):
        """The image's check is that of the dashboard, so each other service has its own or none."""
        services = project_services()
        assert "healthcheck" not in services["dashboard"]
        assert services["worker"]["healthcheck"] == {"disable": True}
        *_, script = services["scheduler"]["healthcheck"]["test"]
        port = services["scheduler"]["command"][-1]
        assert f'("localhost", {port})' in script
        compile(script, "healthcheck", "exec")

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
    @pytest.mark.parametrize("version", VERSIONS)
    def test_schemas_are_valid(self, version):
        """Strict schemas refuse unknown fields, too."""
        import kubernetes_validate  # takes 4 s: jsonschema parses a grammar of URLs

        for item in OBJECTS:
            kubernetes_validate.validate(item, version, strict=True)
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(OBJECTS[0] | {"spec": {"portz": []}}, version, strict=True)

    def test_commands_are_valid(self):
        given = {container["name"]: container["args"] for container in containers()}
        assert given.pop("dashboard") == json.loads(instructions("CMD")[0])
        assert {name: words[:3] for name, words in given.items()} == {
            name: ["engine", "cluster", name] for name in ("scheduler", "worker")
        }
        assert all(is_valid_command(words[1:]) for words in given.values())

    def test_variables_are_settings(self):
        given = {variable["name"] for container in containers() for variable in container["env"]}
        assert given <= settings_variables() | OTHER_VARIABLES
        assert {"EPSILON_ACCESS_FILE", "EPSILON_CLUSTER_KEY", "EPSILON_SCHEDULER", "EPSILON_STORE_URL"} <= given

    def test_pods_are_restricted(self):
        """These are the demands of the Pod Security Standard *restricted*, and a read-only root file system."""
        for name, pod in pods().items():
            spec = pod["spec"]
            assert spec["automountServiceAccountToken"] is False
            assert spec["securityContext"] == {
                "runAsUser": USER,
                "runAsNonRoot": True,
                "fsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            }
            assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
            for container in (*spec["initContainers"], *spec["containers"]):
                assert container["securityContext"] == {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                }
                assert set(container["resources"]["limits"]) == {"cpu", "memory"}
            writable = {
                mount["mountPath"]
                for mount in spec["containers"][0]["volumeMounts"]
                if not mount.get("readOnly") and mount["name"] != "own"
            }
            assert all(is_below(folder, writable) for folder in WRITTEN), name
            (limits,) = (container["resources"]["limits"] for container in spec["containers"])
            assert f"{gibibytes(limits['memory']):g} GiB" in table_row(spec["containers"][0]["name"])

    def test_images_have_the_placeholder_of_deploy_md(self):
        named = {
            container["image"]
            for pod in pods().values()
            for container in (*pod["spec"]["initContainers"], *pod["spec"]["containers"])
        }
        (image,) = named
        assert re.fullmatch(r"[^@]+@sha256:DIGEST", image)
        assert image in TEXT

    def test_volumes_and_secrets_are_defined(self):
        claims = set(objects("PersistentVolumeClaim"))
        for name, pod in pods().items():
            spec = pod["spec"]
            templates = objects("StatefulSet").get(name, {}).get("volumeClaimTemplates", [])
            named = {volume["name"] for volume in spec["volumes"]} | {each["metadata"]["name"] for each in templates}
            used = {
                mount["name"]
                for container in (*spec["initContainers"], *spec["containers"])
                for mount in container["volumeMounts"]
            }
            assert used == named
            assert claims >= {
                volume["persistentVolumeClaim"]["claimName"]
                for volume in spec["volumes"]
                if "persistentVolumeClaim" in volume
            }
            (copying,) = (container["command"][-1] for container in spec["initContainers"])
            copied = set(re.findall(r"/secrets/([\w.]+)", copying))
            values = {str(variable["value"]) for variable in spec["containers"][0]["env"]}
            assert {f"/own/{file}" for file in copied} == {value for value in values if value.startswith("/own/")}
            assert all(f"--from-file={file}" in TEXT for file in copied)

    def test_addresses_name_services_and_their_ports(self):
        services = objects("Service")
        ports = {name: service["ports"][0]["port"] for name, service in services.items()}
        address = f"tls://epsilon-scheduler:{ports['epsilon-scheduler']}"
        values = {variable["name"]: variable["value"] for each in containers() for variable in each["env"]}
        assert values["EPSILON_SCHEDULER"] == address
        assert ports["epsilon-scheduler"] == remote_workers.PORT
        assert str(ports["epsilon-dashboard"]) == values["PORT"] == instructions("EXPOSE")[0]
        for name, service in services.items():
            assert service["selector"].items() <= pods()[name]["metadata"]["labels"].items()
            (container,) = pods()[name]["spec"]["containers"]
            assert container["ports"] == [{"containerPort": ports[name]}]
        (rule,) = objects("Ingress")["epsilon-dashboard"]["rules"]
        (path,) = rule["http"]["paths"]
        backend = path["backend"]["service"]
        assert ports[backend["name"]] == backend["port"]["number"]
        assert objects("Ingress")["epsilon-dashboard"]["tls"][0]["hosts"] == [rule["host"]]

    def test_probes_ask_the_served_port(self):
        """A worker has no port, hence no probe."""
        kinds = {"startupProbe", "readinessProbe", "livenessProbe"}
        for name, pod in pods().items():
            (container,) = pod["spec"]["containers"]
            probes = {kind: container[kind] for kind in kinds & set(container)}
            assert set(probes) == (set() if name == "epsilon-worker" else kinds)
            for probe in probes.values():
                asked = probe.get("httpGet") or probe["tcpSocket"]
                assert asked["port"] == container["ports"][0]["containerPort"]
                assert asked.get("path", HEALTH) == HEALTH
        for name in ("epsilon-dashboard", "epsilon-scheduler"):
            probe = pods()[name]["spec"]["containers"][0]["startupProbe"]
            assert probe["periodSeconds"] * probe["failureThreshold"] >= 120

    def test_network_policies_permit_exactly_the_connections_of_the_program(self):
        policies = objects("NetworkPolicy")
        everything = policies.pop("epsilon-default")
        assert everything["policyTypes"] == ["Ingress", "Egress"]
        assert "ingress" not in everything
        assert [entry["port"] for rule in everything["egress"] for entry in rule["ports"]] == [53, 53]
        for pod in pods().values():
            assert everything["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
        assert set(policies) == set(pods())

        def peers(rules: list[dict[str, Any]], side: str) -> dict[str, int | None]:
            found = {}
            for rule in rules:
                for peer in rule.get(side, [{"ipBlock": {"cidr": "any"}}]):
                    names = (
                        *peer.get("podSelector", {}).get("matchLabels", {}).values(),
                        *peer.get("namespaceSelector", {}).get("matchLabels", {}).values(),
                        *peer.get("ipBlock", {}).values(),
                    )
                    found[names[0]] = rule["ports"][0]["port"] if "ports" in rule else None
            return found

        database = {"10.0.0.3/32": 5432}
        expected = {
            "epsilon-dashboard": ({"ingress-nginx": 8501}, {"epsilon-scheduler": 8786, "any": 443} | database),
            "epsilon-scheduler": ({"epsilon-dashboard": 8786, "epsilon-worker": 8786}, {"epsilon-worker": None}),
            "epsilon-worker": ({"epsilon-scheduler": None}, {"epsilon-scheduler": 8786} | database),
        }
        for name, policy in policies.items():
            assert policy["podSelector"]["matchLabels"] == {"app": name}
            assert (peers(policy["ingress"], "from"), peers(policy["egress"], "to")) == expected[name]


def table_row(name: str) -> str:
    """Return the row of a container in the table of limits of docs/deploy.md."""
    rows = [line for line in TEXT.splitlines() if line.startswith(f"| {name} |")]
    assert len(rows) == 1, name
    return rows[0]


def test_service_has_limits():
    """systemd's unit in deploy.md confines the program and limits memory, processor and number of processes."""
    unit = dict(
        line.split("=", 1) for line in TEXT.split("[Service]")[1].split("[Install]")[0].split("\n") if "=" in line
    )
    assert {"MemoryHigh", "MemoryMax", "CPUQuota", "TasksMax"} <= set(unit)
    assert gibibytes(unit["MemoryHigh"]) < gibibytes(unit["MemoryMax"])
    assert int(unit["CPUQuota"].rstrip("%")) >= 100
    assert int(unit["TasksMax"]) >= 500
    assert unit["TimeoutStopSec"] == "10"
    assert {name: unit[name] for name in ("NoNewPrivileges", "ProtectSystem")} == {
        "NoNewPrivileges": "yes",
        "ProtectSystem": "strict",
    }


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
