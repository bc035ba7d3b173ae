"""What is missing is said loudly, installed without daemons, and in CI never passed over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rig import install
from rig.need import need

LATER = install.Service("moonbase", "not yet", lambda: False, hint="wait", later=True)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine on which no program is installed but those the test puts into this folder."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    return tmp_path


def put(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_missing_service_skips_the_test_on_a_laptop(bare: Path) -> None:
    with pytest.raises(pytest.skip.Exception, match="apt-get install subversion"):
        need("subversion")


@pytest.mark.parametrize("ci", ["true", "1"])
def test_a_missing_service_fails_the_test_in_ci(bare: Path, monkeypatch: pytest.MonkeyPatch, ci: str) -> None:
    monkeypatch.setenv("CI", ci)
    with pytest.raises(pytest.fail.Exception, match="subversion is not installed"):
        need("subversion")


def test_a_service_for_later_may_be_missing_in_ci_too(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setitem(install.SERVICES, LATER.name, LATER)
    with pytest.raises(pytest.skip.Exception, match="moonbase is not installed"):
        need("moonbase")


def test_a_service_lacks_what_it_needs(bare: Path) -> None:
    with pytest.raises(pytest.skip.Exception, match="java is not installed"):
        need("zookeeper")


@pytest.mark.parametrize(("ci", "status"), [("", 0), ("false", 0), ("true", 1)])
def test_the_installer_that_may_not_install_says_what_to_do(
    bare: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ci: str, status: int
) -> None:
    monkeypatch.setenv("CI", ci)
    assert install.main(["--only", "subversion"]) == status
    said = capsys.readouterr().err
    assert "MISSING" in said
    assert "apt-get install subversion" in said


def test_nothing_is_run_when_nothing_is_missing(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(bare, "bwrap", "exit 0")
    put(bare, "apt-get", f"/usr/bin/touch {bare}/ran")
    assert install.main(["--only", "bubblewrap"]) == 0
    assert not (bare / "ran").exists()
    assert capsys.readouterr().err == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root installs")
def test_root_installs_what_is_missing_after_renewing_the_lists(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "POLICY", bare / "policy-rc.d")
    put(
        bare,
        "apt-get",
        f"""
        for word; do case $word in update|install|bubblewrap) echo $word >> {bare}/ran;; esac; done
        [ "$DEBIAN_FRONTEND" = noninteractive ] || exit 1
        read line && exit 1                       # nobody is there to answer
        {bare}/policy-rc.d && exit 1              # a daemon could have been started
        case "$*" in *bubblewrap*) printf '#!/bin/sh\\n' > {bare}/bwrap; /bin/chmod +x {bare}/bwrap;; esac
        """,
    )
    monkeypatch.setenv("CI", "true")
    assert install.main(["--only", "bubblewrap"]) == 0
    assert (bare / "ran").read_text().split() == ["update", "install", "bubblewrap"]
    assert not (bare / "policy-rc.d").exists()


def test_the_installer_waits_for_another_one_that_holds_the_lock(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rig.install.time.sleep", lambda _: None)
    put(
        bare,
        "apt-get",
        f"""
        echo try >> {bare}/tries
        [ "$(/usr/bin/wc -l < {bare}/tries)" -ge 3 ] && exit 0
        echo "E: Could not get lock /var/lib/apt/lists/lock." >&2; exit 100
        """,
    )
    install.apt_get("update")
    assert (bare / "tries").read_text().count("try") == 3


def test_an_installation_that_fails_for_good_is_tried_once_and_shown(
    bare: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(bare, "apt-get", f"echo try >> {bare}/tries; echo 'E: Unable to locate package' >&2; exit 100")
    install.apt_get("install", "nothing")
    assert (bare / "tries").read_text() == "try\n"
    assert "Unable to locate package" in capsys.readouterr().err


@pytest.mark.parametrize("before", [None, install.OURS, "#!/bin/sh\nexit 0\n"])
def test_the_policy_about_daemons_is_as_before_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    """What we left behind ourselves, when we were killed, does not count as the machine's own."""
    policy = tmp_path / "policy-rc.d"
    monkeypatch.setattr(install, "POLICY", policy)
    if before:
        policy.write_text(before)
    with install.no_daemons():
        assert "exit 101" in policy.read_text()
        assert os.access(policy, os.X_OK)
    assert (policy.read_text() if policy.exists() else install.OURS) == (before or install.OURS)
    assert policy.exists() == (before not in (None, install.OURS))


def test_those_for_later_are_left_out_unless_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(install.SERVICES, LATER.name, LATER)
    monkeypatch.setattr(install, "missing", lambda services: list(services))
    monkeypatch.setattr("rig.install.os.geteuid", lambda: 1000)
    install.main([])
    default = capsys.readouterr().err
    install.main(["--all"])
    everything = capsys.readouterr().err
    assert "postgresql" in default
    assert "moonbase" not in default
    assert "moonbase" in everything
