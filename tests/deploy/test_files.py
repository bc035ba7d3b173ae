"""Deployment files are true: every command, option, path and metric in them is one that exists."""

from __future__ import annotations

import email
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from custody import config
from custody.application import OURS
from custody.cli.command_tree import verbs
from custody.kernel.stores import open_store
from custody.web.metrics import Telling
from custody.web.queries.overview import Glance

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").iterdir())
CONTAINERFILE = (DEPLOY / "Containerfile").read_text()


def compose() -> dict[str, Any]:
    found: dict[str, Any] = YAML(typ="safe").load((DEPLOY / "compose.yaml").read_text())
    return found


def must_be_a_command(words: list[str]) -> None:
    """Noun, verb and options are those of the program."""
    known = {verb.command: verb for verb in verbs()}
    name = next((f"custody {' '.join(words[:n])}" for n in (2, 1) if f"custody {' '.join(words[:n])}" in known), "")
    assert name, f"there is no command {words}"
    options = {option for parameter in known[name].parameters for option in parameter.names}
    used = {word.partition("=")[0] for word in words if word.startswith("--")}
    assert used <= options, f"{name} has no {used - options}"


def test_every_command_in_compose_exists_and_waits_long_enough_for_workers_to_finish() -> None:
    services = compose()["services"]
    for name in ("web", "worker"):
        must_be_a_command(services[name]["command"])
        assert services[name]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert services["worker"]["deploy"]["replicas"] > 1
    words = services["worker"]["command"]
    assert float(services["worker"]["stop_grace_period"].rstrip("s")) > float(words[words.index("--grace") + 1])
    assert services["web"]["ports"] == ["127.0.0.1:7337:7337"], "not for the whole network before there is TLS"
    assert (DEPLOY / services["web"]["build"]["context"] / services["web"]["build"]["dockerfile"]).is_file()


def test_the_image_is_made_from_any_base_and_its_user_owns_what_compose_mounts() -> None:
    assert re.findall(r"^FROM (\S+)", CONTAINERFILE, re.MULTILINE) == ["$BASE", "$BASE"]
    assert re.search(r"^ARG BASE=\S+\n(?:.*\n)*?FROM", CONTAINERFILE, re.MULTILINE), "before the first FROM, for both"
    user = re.search(r"--uid (\d+) custody", CONTAINERFILE)
    assert user
    text = (DEPLOY / "compose.yaml").read_text()
    assert f"chown {user[1]}:{user[1]} deploy/archive" in text
    mounts = dict(each.split(":")[:2] for each in compose()["x-custody"]["volumes"])
    assert mounts == {"./archive": "/var/lib/custody", "./custody.toml": "/var/lib/custody/custody.toml"}
    assert (DEPLOY / "custody.toml").is_file()
    assert isinstance(compose()["services"]["worker"]["healthcheck"]["test"], str), "a list breaks podman-compose 1.0"


def test_no_password_and_no_foreign_registry_is_written_down() -> None:
    for file in DEPLOY.rglob("*"):
        if file.is_file():
            text = file.read_text()
            assert not re.search(r"(?i)password[:=]\s*[\"']?\w", text.replace("${POSTGRES_PASSWORD", "")), file
            assert not re.search(r"(?:image|FROM)[: ]+[\w-]+\.[\w.-]+/", text), file


def test_the_configuration_beside_compose_can_be_read() -> None:
    found = config.read(DEPLOY / "custody.toml")
    assert found.store == compose()["x-custody"]["environment"]["CUSTODY_STORE"]


def test_the_image_copies_what_there_is_runs_as_nobody_special_and_starts_a_command_that_exists() -> None:
    for line in re.findall(r"^COPY (?!--from)(.*)$", CONTAINERFILE, re.MULTILINE):
        *sources, _ = line.split()
        for source in sources:
            assert (ROOT / source).exists(), source
    assert re.search(r"^USER custody$", CONTAINERFILE, re.MULTILINE)
    words = json.loads(re.findall(r"^CMD (\[.*\])$", CONTAINERFILE, re.MULTILINE)[-1])
    must_be_a_command(words)
    entry = re.search(r'^ENTRYPOINT \["(\w+)"\]$', CONTAINERFILE, re.MULTILINE)
    assert entry
    assert f'{entry[1]} = "custody.cli:main"' in (ROOT / "pyproject.toml").read_text()
    makefile = (ROOT / "Makefile").read_text()
    for part in (
        "--only-binary :all: --require-hashes",
        "--no-deps --no-build-isolation",
        "requirements/build.txt",
        "requirements/run.txt",
    ):
        assert part in CONTAINERFILE
        assert part in makefile, "the image is made as `make` does it"


@pytest.mark.parametrize("unit", [unit for unit in UNITS if unit.suffix == ".service"], ids=lambda unit: unit.name)
def test_units_start_commands_that_exist(unit: Path) -> None:
    start = re.search(r"^ExecStart=/opt/custody/bin/custody (.*)$", unit.read_text(), re.MULTILINE)
    assert start
    must_be_a_command(start[1].split())
    assert "User=custody" in unit.read_text()
    assert "NoNewPrivileges=yes" in unit.read_text()
    assert "UMask=0077" in unit.read_text(), "what it writes is nobody else's to read"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is missing: apt-get install systemd")
def test_systemd_understands_the_units(tmp_path: Path) -> None:
    for unit in UNITS:
        text = unit.read_text().replace("/opt/custody/bin/custody", sys.executable)
        (tmp_path / unit.name).write_text(text)
    names = [str(tmp_path / unit.name.replace("@", "@9341")) for unit in UNITS if "@" not in unit.name]
    template = tmp_path / "custody-worker@9341.service"
    shutil.copy(tmp_path / "custody-worker@.service", template)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *names, str(template)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    ours = [line for line in done.stderr.splitlines() if "custody" in line and "not found" not in line]
    assert ours == []


# What is installed, and whose it is


def tracked() -> list[Path]:
    """Every text file of the project, as git knows them or, without git, as they lie there."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True)
    if done.returncode == 0:
        return [ROOT / name for name in done.stdout.decode().split("\0") if name]
    parts = ("README.md", "Makefile", "pyproject.toml", "src", "tests", "docs", "deploy", "bench", "requirements")
    return [file for part in parts for file in ((ROOT / part).rglob("*") if (ROOT / part).is_dir() else [ROOT / part])]


def test_nobody_is_told_to_install_the_package_of_a_stranger() -> None:
    """The short name belongs to somebody else on the package index, and the long one is not published yet."""
    by_name = re.compile(
        r"(?:pip3? install|pip3? download|uv add|uvx|pipx (?:run|install))\b[^\n`'\"]*[\s'\"]custody(?:-archive)?(?:\[|==|[\s'\"`]*$)",
        re.M,
    )
    for file in tracked():
        if (
            file.suffix in {".md", ".py", ".yml", ".yaml", ".toml", ".sh", ""}
            and file.is_file()
            and file != Path(__file__)
        ):
            text = file.read_text(errors="replace")
            assert not (found := by_name.search(text)), f"{file}: {found[0]}"
            assert "custody[" not in text.replace("x-custody[", ""), file
    assert by_name.search('pip install "custody[azure]"'), "what was once written would be found"
    assert by_name.search("pip install custody\n")


def test_the_distribution_has_a_name_of_its_own_and_the_command_stays() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == "custody-archive"
    assert project["scripts"] == {"custody": "custody.cli:main"}


def test_what_is_built_is_called_so_and_brings_one_package_and_one_command(tmp_path: Path) -> None:
    """Asked of the wheel itself, as pip reads it."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as built:
        names = built.namelist()
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        said = email.message_from_bytes(built.read(metadata))
        scripts = built.read(metadata.replace("METADATA", "entry_points.txt")).decode()
    assert said["Name"] == "custody-archive"
    assert {name.split("/")[0] for name in names} == {"custody", metadata.split("/")[0]}
    given = dict(line.split(" = ") for line in scripts.splitlines() if " = " in line)
    ours = {name: f"custody.{name}.app:APPLICATION" for name in OURS}
    assert given == {"custody": "custody.cli:main", **ours}
    assert [line for line in scripts.splitlines() if line.startswith("[")] == [
        "[console_scripts]",
        "[custody.applications]",
    ]
    wanted = [one for one in said.get_all("Requires-Dist") or [] if re.match(r"custody\b", one)]
    assert wanted == [], "it does not want itself, by whichever name"


def test_an_image_of_ours_is_never_looked_for_at_a_registry() -> None:
    """A short name is completed by whoever configures registries; with `build`, compose pulls first unless told."""
    assert (compose()["x-custody"]["image"], compose()["x-custody"]["pull_policy"]) == ("localhost/custody", "build")
    for file in (DEPLOY / "compose.yaml", DEPLOY / "Containerfile", ROOT / "docs" / "how-to" / "containers.md"):
        text = file.read_text()
        assert not re.search(r"podman build .*-t custody\b", text), file
        for line in re.findall(r"podman run .*", text):
            assert "--pull=never" in line, line
            assert " localhost/custody " in line, line


def mirror_steps() -> list[dict[str, Any]]:
    found = YAML(typ="safe").load((DEPLOY / "github-actions" / "mirror-channels.yml").read_text())
    steps: list[dict[str, Any]] = found["jobs"]["mirror"]["steps"]
    return steps


def test_the_workflow_installs_by_commit_and_hash_before_it_writes_a_secret() -> None:
    steps = mirror_steps()
    for step in steps:
        if "uses" in step:
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step["uses"]), step["uses"]
    names = [step.get("name", "") for step in steps]
    secret = next(number for number, step in enumerate(steps) if "secrets." in str(step.get("env", "")))
    assert names.index("Look at what was fetched") < names.index("Install") < secret
    for line in steps[names.index("Install")]["run"].splitlines():
        if " pip install " in line:
            listed = re.search(r"--only-binary :all: --require-hashes -r \.custody/(\S+)$", line)
            assert listed or line.endswith("--no-deps --no-build-isolation ./.custody"), line
            assert not listed or (ROOT / listed[1]).is_file(), line


def test_files_that_differ_from_those_that_were_looked_at_are_not_installed(tmp_path: Path) -> None:
    source = tmp_path / ".custody"
    shutil.copytree(ROOT / "deploy" / "systemd", source)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(source)]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    shutil.copy(ROOT / "Makefile", source)  # `make pin` is asked in the checkout that was looked at
    pinned = dict(
        re.findall(r"(CUSTODY_\w+) (\w+)", subprocess.check_output(["make", "-sC", source, "pin"], text=True))
    )
    step = next(step for step in mirror_steps() if step.get("name") == "Look at what was fetched")

    def looked(commit: str, digest: str) -> int:
        environ = {"PATH": os.environ["PATH"], "COMMIT": commit, "DIGEST": digest}
        return subprocess.run(
            ["bash", "-e", "-c", step["run"]], cwd=tmp_path, env=environ, capture_output=True
        ).returncode

    commit, digest = pinned["CUSTODY_COMMIT"], pinned["CUSTODY_SHA256"]
    assert looked(commit, digest) == 0
    assert looked("0" * 40, digest) != 0
    assert looked(commit, "0" * 64) != 0
    assert looked("", "") != 0, "a variable that is missing pins nothing"


# Metrics


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Every name that /metrics has, as Prometheus calls them."""
    url = f"sqlite:///{tmp_path_factory.mktemp('metrics') / 'custody.db'}"
    with open_store(url) as store:
        from custody.channels.condition.metrics import Numbers
        from custody.channels.opening import told
        from custody.installation import machines
        from custody.opening import Opened

        telling = Telling()
        found = Numbers({"whole": 1}, {"wanted": 1}, 1.0, {("1", "lost"): 1})
        telling.applications = [Opened(gauges=lambda: told(found))]
        text = telling.text(Glance(store, machines(), [])).decode()
    names = set(re.findall(r"^# TYPE (\w+) \w+$", text, re.MULTILINE))
    return names | {f"{name}_{part}" for name in names for part in ("bucket", "sum", "count")}


def named(text: str) -> set[str]:
    return set(re.findall(r"custody_\w+", text))


def test_the_grafana_dashboard_shows_only_metrics_that_exist_and_all_that_matter(metrics: set[str]) -> None:
    board = json.loads((DEPLOY / "grafana" / "custody.json").read_text())
    used = {name for panel in board["panels"] for target in panel["targets"] for name in named(target["expr"])}
    assert used <= metrics
    plain = {name for name in metrics if not name.endswith(("_bucket", "_sum", "_count", "_created"))}
    shown = used | {name.removesuffix("_bucket") for name in used}
    assert plain - shown == set(), "a metric that nobody looks at"
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_alerts_ask_about_metrics_that_exist(metrics: set[str]) -> None:
    rules = YAML(typ="safe").load((DEPLOY / "alerts.yml").read_text())["groups"][0]["rules"]
    assert len(rules) >= 5
    for rule in rules:
        assert named(rule["expr"]) <= metrics, rule["alert"]
        assert named(rule["expr"])
    prometheus = YAML(typ="safe").load((DEPLOY / "prometheus.yml").read_text())
    assert all((DEPLOY / name).is_file() for name in prometheus["rule_files"])
