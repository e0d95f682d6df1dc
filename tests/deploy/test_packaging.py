"""The files of deploy/ are what Docker, Compose, Kubernetes and systemd take, and say what this version understands."""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT4
from ruamel.yaml import YAML

from penstock.config.loading import load
from penstock.config.secret_values import known_cipher
from penstock.config.settings import Settings
from penstock.core.errors import ConfigError
from tests.deploy.schemas import compose_schema, kubernetes_schema
from tests.docs.snippets import ROOT

DEPLOY = ROOT / "deploy"
STOP_TIMEOUT = Settings().engine.stop_timeout


def plain(text: str) -> list[Any]:
    return list(YAML(typ="safe", pure=True).load_all(text))


def settings(environ: dict[str, str]) -> Settings:
    """The settings that an environment gives; what it names must be one."""
    loaded = Settings.load({"HOME": "/nowhere", **environ}, Path("/nowhere"))
    assert loaded.warnings == ()
    return loaded


# -- Docker --------------------------------------------------------------------------------


def dockerfile() -> list[list[tuple[str, str]]]:
    """Instructions with their words, by stage."""
    text = re.sub(r"\\\n\s*", "", "\n".join(line for line in _lines(DEPLOY / "Dockerfile") if line[:1] != "#"))
    stages: list[list[tuple[str, str]]] = []
    for line in filter(None, text.splitlines()):
        word, _, rest = line.partition(" ")
        if word == "ARG" and not stages:
            continue  # the base of all stages
        if word == "FROM":
            stages.append([])
        stages[-1].append((word, rest.strip()))
    return stages


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines()


def said(stage: list[tuple[str, str]], word: str) -> list[str]:
    return [rest for each, rest in stage if each == word]


def test_an_image_has_no_root_and_listens_where_penstock_does() -> None:
    build, final = dockerfile()
    assert said(build, "FROM")[0].split(" AS ")[0] == said(final, "FROM")[0], (
        "the environment moves from one to the other"
    )
    assert said(final, "USER") == ["10001:10001"]
    assert said(final, "EXPOSE") == [str(Settings().http.port)]
    variables = dict(re.findall(r"(\w+)=(\S+)", said(final, "ENV")[0]))
    home = settings({name: value for name, value in variables.items() if name.startswith("PENSTOCK_")}).home
    assert said(final, "VOLUME") == [str(home)]
    [probe] = said(final, "HEALTHCHECK")
    assert f"os.environ.get('PENSTOCK_HTTP_PORT', '{Settings().http.port}') + '/health/live'" in probe
    for source in said(build, "COPY") + [copy for copy in said(final, "COPY") if not copy.startswith("--from")]:
        assert all((ROOT / name).exists() for name in source.split()[:-1]), source


def test_the_install_steps_run_in_a_clean_folder(tmp_path: Path) -> None:
    """Only what the build stage copies is there; then its commands are run, into another folder."""
    build, _ = dockerfile()
    context, target = tmp_path / "build", tmp_path / "opt"
    for copy in said(build, "COPY"):
        *sources, there = copy.split()
        for source in sources:
            to = context / (Path(there) / Path(source).name if there == "./" else Path(there))
            to.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, to, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / source, to)
    [step] = said(build, "RUN")
    command = step.replace("/opt/penstock", str(target))
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "VIRTUAL_ENV"))}
    # uv fetches and builds pyspark anew for every environment, unless it may only take it from its cache.
    for environ in (clean | {"UV_OFFLINE": "1"}, clean):
        done = subprocess.run(
            ["sh", "-c", command], cwd=context, env=environ, capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            break
        shutil.rmtree(target, ignore_errors=True)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(context)
    penstock = target / "bin" / "penstock"
    clean["KAFKA_BOOTSTRAP"] = "localhost:9092"
    for args in (["version"], ["validate", str(DEPLOY / "pipelines")]):
        done = subprocess.run([penstock, *args], cwd=tmp_path, env=clean, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_spark_starts_by_the_script_with_its_secret_in_a_file(tmp_path: Path) -> None:
    home = tmp_path / "pyspark"
    (home / "bin").mkdir(parents=True)
    tools = {
        tmp_path / "python": f"#!/bin/sh\necho {home}\n",
        home / "bin" / "spark-class": '#!/bin/sh\necho "$@"\ncat "$SPARK_CONF_DIR/spark-defaults.conf"\nenv\n',
    }
    for file, text in tools.items():
        file.write_text(text)
        file.chmod(0o755)
    environ = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PENSTOCK_SPARK_SECRET": "hush-hush",
        "TMPDIR": str(tmp_path),
    }
    script = ["sh", str(DEPLOY / "spark.sh")]

    def run(*args: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*script, *args], env=environ | more, capture_output=True, text=True, check=False)

    worker = run("worker", "spark://m:7077").stdout
    assert "Worker spark://m:7077" in worker
    assert worker.count("hush-hush") == 1, "in the file, neither in the command nor in its environment"
    assert "Master --host" in run("master").stdout
    assert run("slave").returncode == 2
    assert run("master", PENSTOCK_SPARK_SECRET="").returncode != 0


@pytest.mark.parametrize("script", sorted(DEPLOY.glob("*.sh")), ids=lambda path: path.name)
def test_a_script_is_one_that_sh_takes(script: Path) -> None:
    subprocess.run(["sh", "-n", script], check=True)


# -- Compose -------------------------------------------------------------------------------


def compose(environ: dict[str, str]) -> dict[str, Any]:
    """The file with its variables put in, as Compose does it."""

    def value(match: re.Match[str]) -> str:
        assert environ.get(match[1]), f"{match[1]} is not in example.env"
        return environ[match[1]]

    [data] = plain(re.sub(r"\$\{(\w+):\?\}", value, (DEPLOY / "compose.yaml").read_text()))
    return dict(data)


@pytest.fixture(scope="module")
def composed() -> dict[str, Any]:
    pairs = (line.partition("=") for line in _lines(DEPLOY / "example.env") if "=" in line)
    return compose({name: value for name, _, value in pairs})


def test_compose_is_valid(composed: dict[str, Any]) -> None:
    jsonschema.Draft7Validator(compose_schema()).validate(composed)


def test_compose_is_whole(composed: dict[str, Any]) -> None:
    services = composed["services"]
    assert {"penstock", "kafka", "postgres", "spark-master", "spark-worker"} <= set(services)
    for name, service in services.items():
        assert set(service.get("depends_on", ())) <= set(services), name
        assert re.fullmatch(r"penstock|[\w/]+:[\d.]+", service["image"]), "a version is named"
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (DEPLOY / source).is_dir() if source.startswith(".") else source in composed["volumes"]
    [kept] = services["kafka"]["volumes"]
    assert kept.split(":")[1] == services["kafka"]["environment"]["KAFKA_LOG_DIRS"], "records outlive the container"
    assert services["penstock"]["ports"] == ["127.0.0.1:8642:8642"], "to this machine only"
    assert float(services["penstock"]["stop_grace_period"].rstrip("s")) > STOP_TIMEOUT


def test_composes_environment_is_understood(composed: dict[str, Any]) -> None:
    given = composed["services"]["penstock"]["environment"]
    mine = settings({name: value for name, value in given.items() if name.startswith("PENSTOCK_")})
    assert mine.http.auth == "local"
    assert mine.store_url.endswith("@postgres:5432/penstock")
    assert mine.spark.master == "spark://spark-master:7077"
    assert mine.spark.conf["spark.driver.bindAddress"] == "0.0.0.0"  # noqa: S104 - inside its own network
    assert mine.spark.conf["spark.authenticate.secret"]
    assert not load([DEPLOY / "pipelines"], {"KAFKA_BOOTSTRAP": given["KAFKA_BOOTSTRAP"]}).problems


# -- Kubernetes ----------------------------------------------------------------------------

MANIFESTS = [
    document for file in sorted((DEPLOY / "kubernetes").glob("*.yaml")) for document in plain(file.read_text())
]


def manifest(kind: str) -> dict[str, Any]:
    [found] = [each for each in MANIFESTS if each["kind"] == kind]
    return dict(found)


@pytest.mark.parametrize("document", MANIFESTS, ids=lambda document: str(document["kind"]))
def test_a_manifest_is_valid(document: dict[str, Any]) -> None:
    file = kubernetes_schema(document)

    def beside(uri: str) -> Resource[Any]:
        return Resource.from_contents(_json(file.parent / Path(uri).name), default_specification=DRAFT4)

    registry: Registry[Any] = Registry(retrieve=beside)  # type: ignore[call-arg]  # attrs' own argument
    jsonschema.Draft4Validator(_json(file), registry=registry).validate(document)


@cache
def _json(file: Path) -> Any:
    return json.loads(file.read_text())


def test_the_manifests_fit_together() -> None:
    pod = manifest("Deployment")["spec"]["template"]
    labels = pod["metadata"]["labels"]
    spec = pod["spec"]
    [container] = spec["containers"]
    assert manifest("Deployment")["spec"]["selector"]["matchLabels"] == labels
    assert manifest("Service")["spec"]["selector"] == labels
    for kind in ("PodDisruptionBudget", "NetworkPolicy"):
        selector = manifest(kind)["spec"]
        assert selector.get("selector", selector.get("podSelector"))["matchLabels"] == labels
    assert container["envFrom"] == [{"secretRef": {"name": manifest("Secret")["metadata"]["name"]}}]
    assert spec["serviceAccountName"] == manifest("ServiceAccount")["metadata"]["name"]
    [pipelines] = [volume for volume in spec["volumes"] if "configMap" in volume]
    assert pipelines["configMap"]["name"] == manifest("ConfigMap")["metadata"]["name"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert container["args"] == ["run", mounts["pipelines"]]
    assert set(mounts) == {volume["name"] for volume in spec["volumes"]}
    assert spec["terminationGracePeriodSeconds"] > STOP_TIMEOUT
    assert spec["securityContext"]["runAsUser"] == 10001
    assert spec["enableServiceLinks"] is False
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["path"] in ("/health/live", "/health/ready")


def test_l09_the_network_policy_does_what_its_comment_says() -> None:
    policy = manifest("NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    [ingress] = policy["ingress"]
    [http] = manifest("Deployment")["spec"]["template"]["spec"]["containers"][0]["ports"]
    assert ingress["ports"] == [{"port": http["containerPort"], "protocol": "TCP"}]
    allowed = [peer["namespaceSelector"]["matchLabels"] for peer in ingress["from"]]
    assert [label["kubernetes.io/metadata.name"] for label in allowed] == ["ingress-nginx", "monitoring"]
    for rule in policy["egress"]:
        assert rule["to"], "a rule without `to` allows every address"
        assert rule["ports"]
    blocks = [peer["ipBlock"] for rule in policy["egress"] for peer in rule["to"] if "ipBlock" in peer]
    assert blocks == [{"cidr": "0.0.0.0/0", "except": ["169.254.0.0/16"]}], "no cloud's metadata service"


def test_l09_a_pod_is_bounded_and_its_image_is_named_by_digest() -> None:
    spec = manifest("Deployment")["spec"]["template"]["spec"]
    [container] = spec["containers"]
    assert set(container["resources"]["limits"]) == {"cpu", "memory", "ephemeral-storage"}
    assert re.fullmatch(r"\S+@sha256:[0-9a-f]{64}", container["image"])
    assert all(volume["emptyDir"]["sizeLimit"] for volume in spec["volumes"] if "emptyDir" in volume)
    _, final = dockerfile()
    assert said(final, "FROM") == ["${BASE}"], "which a build pins: --build-arg BASE=…@sha256:…"


# -- build tools ---------------------------------------------------------------------------


def test_l10_build_tools_are_pinned_by_hash() -> None:
    text = (ROOT / "requirements" / "build.txt").read_text()
    pinned = re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE)
    assert {"hatchling", "setuptools", "editables"} <= {name for name, _ in pinned}
    for block in re.split(r"\n(?=\S)", text.strip()):
        assert "--hash=sha256:" in block
    for file in ("Makefile", "deploy/install.sh"):
        found = (ROOT / file).read_text()
        assert re.search(r"export UV_BUILD_CONSTRAINT.*requirements/build\.txt", found), file
        assert "--no-build-isolation" not in found, f"{file}: tools of the environment are no pinned ones"


def test_l10_a_build_tool_of_another_hash_is_refused(tmp_path: Path) -> None:
    uv = ROOT / ".cache" / "uv" / "bin" / "uv"
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "src" / "penstock").mkdir(parents=True)
    (tmp_path / "src" / "penstock" / "__init__.py").touch()
    changed = tmp_path / "build.txt"
    text = (ROOT / "requirements" / "build.txt").read_text()
    changed.write_text(re.sub(r"sha256:[0-9a-f]{8}", "sha256:00000000", text))
    environ = os.environ | {"UV_BUILD_CONSTRAINT": str(changed)}
    command = [
        uv,
        "build",
        "--wheel",
        "--quiet",
        "--build-constraints",
        str(changed),
        "--out-dir",
        tmp_path / "out",
        tmp_path,
    ]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Hash mismatch" in done.stderr
    assert not list((tmp_path / "out").glob("*.whl"))


def test_the_pods_environment_and_pipelines_are_understood(tmp_path: Path) -> None:
    [container] = manifest("Deployment")["spec"]["template"]["spec"]["containers"]
    environ = {pair["name"]: pair["value"] for pair in container["env"]} | manifest("Secret")["stringData"]
    mine = settings({name: value for name, value in environ.items() if name.startswith("PENSTOCK_")})
    assert (mine.http.auth, mine.http.port) == ("local", container["ports"][0]["containerPort"])
    assert not mine.store_url.startswith("sqlite"), "two instances need a common store"
    with pytest.raises(ConfigError, match="is no key"):
        # They need a common key, too, for their homes do not last; and none that everybody knows.
        known_cipher(tmp_path, environ)
    for name, text in manifest("ConfigMap")["data"].items():
        (tmp_path / name).write_text(text)
    loaded = load([tmp_path], environ)
    assert not loaded.problems
    assert [spec.name for spec in loaded.specs] == ["hello"]


# -- systemd -------------------------------------------------------------------------------


class Unit(configparser.RawConfigParser):
    """Keys keep their case; one that is given twice is kept as its last line here, and looked for in the text."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def test_the_unit_starts_what_the_script_installs_and_waits_for_its_stop() -> None:
    text = (DEPLOY / "penstock.service").read_text()
    unit = Unit(strict=False)
    unit.read_string(text)
    assert unit.sections() == ["Unit", "Service", "Install"]
    service = unit["Service"]
    [install] = said(dockerfile()[0], "RUN")
    assert service["ExecStart"].startswith(f"{install.split()[-1]}/bin/penstock run ")
    assert float(service["TimeoutStopSec"]) > STOP_TIMEOUT
    given = dict(pair.split("=", 1) for pair in re.findall(r"^Environment=(\S+)$", text, re.MULTILINE))
    assert given.pop("PENSTOCK_CONFIG") == "/etc/penstock/penstock.yaml"
    assert settings(given).home == Path(f"/var/lib/{service['StateDirectory']}")


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """Where systemd is at hand; elsewhere the test above has to do."""
    verify = shutil.which("systemd-analyze")
    text = (DEPLOY / "penstock.service").read_text()
    here = tmp_path / "penstock.service"
    here.write_text(text.replace("/opt/penstock/bin/penstock", "/bin/true"))
    if verify:
        done = subprocess.run([verify, "verify", here], capture_output=True, text=True, check=False)
        assert not [line for line in done.stderr.splitlines() if "penstock.service" in line], done.stderr
