"""What makes a release: notes, SBOM, checksums, and the workflows that call the scripts of `.ci/release`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from checks import equal, expect

TOP = Path(__file__).resolve().parents[2]
RELEASE = TOP / ".ci/release"
WORKFLOWS = TOP / ".github/workflows"
CHECKER = Path.home() / ".cache/helve/deploy-1/bin/check-jsonschema"
SCRIPTS = [*sorted(RELEASE.iterdir()), *(TOP / "deploy/debian" / name for name in ("postinst", "prerm", "postrm"))]
CHANGELOG = """# Changelog

## Unreleased

- Of the next one.

## 1.11.0-rc.1 - 2026-03-03

- Tried out.

## 1.10.0 - 2026-02-02

### Added

- Ten.

## [1.1.0] - 2026-01-01

- One.

## 1.0.0

"""


def ran(script: str, *arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
    command = [str(RELEASE / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | more)


def refused(why: str, ended: subprocess.CompletedProcess[str]) -> None:
    expect(ended.returncode != 0 and why in ended.stderr, f"'{why}' is expected: {ended.returncode} {ended.stderr}")


def notes_are_of_the_version_alone(directory: Path) -> str:
    changelog, manifest = directory / "CHANGELOG.md", directory / "Cargo.toml"
    changelog.write_text(CHANGELOG)

    def notes(version: str, built: str) -> subprocess.CompletedProcess[str]:
        manifest.write_text(f'[workspace.package]\nversion = "{built}"\n\n[workspace.dependencies]\nversion = "9.9.9"\n')
        return ran("notes", version, HELVE_RELEASE_CHANGELOG=str(changelog), HELVE_RELEASE_MANIFEST=str(manifest))

    equal(notes("1.10.0", "1.10.0").stdout, "### Added\n\n- Ten.\n", "notes")
    equal(notes("1.1.0", "1.1.0").stdout, "- One.\n", "notes")
    refused("says 1.1.0", notes("1.10.0", "1.1.0"))
    equal(notes("1.11.0-rc.1", "1.11.0-rc.1").stdout, "- Tried out.\n", "notes")
    refused("has nothing under '## 1.11.0'", notes("1.11.0", "1.11.0"))
    refused("has nothing under '## 1.0.0'", notes("1.0.0", "1.0.0"))
    refused("has nothing under '## 1.1.1'", notes("1.1.1", "1.1.1"))
    refused("is no version", notes("v1.1.0", "1.1.0"))
    return "3 versions, 5 refusals"


def sbom_names_every_crate(directory: Path) -> str:
    """With a stand-in for cargo-cyclonedx, whose own build takes minutes: what is checked is how its result is used."""
    tools = directory / "tools"
    tools.mkdir()
    # It says what it is, and writes the file of the crate as it finds it in `made`.
    made = directory / "made.json"
    tool = tools / "cargo-cyclonedx"
    tool.write_text(
        '#!/bin/sh\n[ "$2" = --version ] && echo "cargo-cyclonedx-cyclonedx $VERSION" && exit\n'
        f'cp {made} node/cli/helve.cdx.json && cp {made} node/helve.cdx.json\n'
    )
    tool.chmod(0o755)
    tree = ["cargo", "tree", "--locked", "--package", "helve-cli", "--edges", "normal,build"]
    tree += [f"--target={architecture}-unknown-linux-gnu" for architecture in ("x86_64", "aarch64")]
    listed = subprocess.run([*tree, "--prefix", "none", "--format", "{p}"], cwd=TOP, capture_output=True, text=True, check=True)
    crates = sorted(set(re.findall(r"^(\S+) v(\S+)", listed.stdout, re.M)))
    own = next(crate for crate in crates if crate[0] == "helve-cli")
    expect(len(crates) > 100, f"only {len(crates)} crates")
    out = directory / "helve.cdx.json"

    def sbom(without: tuple[str, str] | None, version: str) -> subprocess.CompletedProcess[str]:
        def described(crate: tuple[str, str]) -> dict[str, str]:
            return {"name": crate[0], "version": crate[1]}

        components = [described(crate) for crate in crates if crate not in (own, without)]
        made.write_text(json.dumps({"metadata": {"component": described(own)}, "components": components}))
        return ran("sbom", out, PATH=f"{tools}:{os.environ['PATH']}", VERSION=version)

    refused("is wanted", sbom(None, "0.1.0"))
    refused("not in the SBOM, though the binary is built of them: rocksdb@", sbom(next(c for c in crates if c[0] == "rocksdb"), "0.5.9"))
    expect(not out.exists(), "an incomplete SBOM is left")
    ended = sbom(None, "0.5.9")
    expect(ended.returncode == 0 and out.is_file(), ended.stderr)
    left = [path for path in TOP.glob("*/**/helve.cdx.json") if "target" not in path.parts]
    equal(left, [], "files left in the checkout")
    return ended.stdout.strip().rsplit(": ")[-1]


def sums_are_signed(directory: Path) -> str:
    """With a stand-in for cosign, which signs as the workflow that runs it."""
    tools, files = directory / "signer", directory / "files"
    tools.mkdir()
    files.mkdir()
    path = f"{tools}:{os.environ['PATH']}"
    refused("holds no file", ran("sign", files, PATH=path))
    for name in ("one", "two words"):
        (files / name).write_text(name)
    tool = tools / "cosign"
    tool.write_text('#!/bin/sh\n[ "$1 $2 $3" = "sign-blob --yes --bundle" ] && [ "$5" = SHA256SUMS ] && : >"$4"\n')
    tool.chmod(0o755)
    refused("wrote no signature", ran("sign", files, PATH=path))
    tool.write_text('#!/bin/sh\nsha256sum <"$5" >"$4"\n')
    for _ in range(2):
        ended = ran("sign", files, PATH=path)
        expect(ended.returncode == 0, ended.stderr)
        summed = [line.split("  ")[1] for line in (files / "SHA256SUMS").read_text().splitlines()]
        equal(summed, ["one", "two words"], "files that are summed")
    checked = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=files, capture_output=True, text=True)
    expect(checked.returncode == 0, checked.stdout + checked.stderr)
    return "2 files, twice"


def incomplete_release_is_not_published(directory: Path) -> str:
    """Before anything is pushed: docker, cosign and gh are stand-ins that must not be called."""
    tools, files, images = (directory / name for name in ("publisher", "published", "images"))
    for place in (tools, files, images):
        place.mkdir()
    called = directory / "called"
    for name in ("docker", "cosign", "gh"):
        (tools / name).write_text(f"#!/bin/sh\necho {name} >>{called}\nexit 1\n")
        (tools / name).chmod(0o755)
    changelog, manifest = directory / "CHANGELOG.md", directory / "Cargo.toml"
    changelog.write_text(CHANGELOG)

    def published(version: str, built: str) -> subprocess.CompletedProcess[str]:
        manifest.write_text(f'[workspace.package]\nversion = "{built}"\n')
        more = {"HELVE_RELEASE_CHANGELOG": str(changelog), "HELVE_RELEASE_MANIFEST": str(manifest)}
        more |= {"PATH": f"{tools}:{os.environ['PATH']}", "GITHUB_REPOSITORY": "Helve/Helve"}
        return ran("publish", version, files, images, **more)

    refused("says 1.1.0", published("1.10.0", "1.1.0"))
    # A pre-release's package has a tilde in its version, which GitHub leaves in no name of a file.
    for version, debian in (("1.1.0", "1.1.0-1"), ("1.11.0-rc.1", "1.11.0.rc.1-1")):
        for path in (*files.iterdir(), *images.iterdir()):
            path.unlink()
        called.unlink(missing_ok=True)
        names = [f"helve-{version}.cdx.json"]
        names += [f"helve-{version}-linux-{architecture}.tar.gz" for architecture in ("x86_64", "aarch64")]
        names += [f"helve_{debian}_{architecture}.deb" for architecture in ("amd64", "arm64")]
        for name in names:
            (files / name).write_text(name)
        for architecture in ("amd64", "arm64"):
            (images / f"helve-{version}-image-{architecture}.tar.gz").write_text("")
        sums = subprocess.run(["sha256sum", *names], cwd=files, capture_output=True, text=True, check=True)
        (files / "SHA256SUMS").write_text(sums.stdout)
        (files / "SHA256SUMS.sigstore.json").write_text("{}")
        for name in (f"helve_{debian}_arm64.deb", "SHA256SUMS.sigstore.json"):
            (files / name).rename(directory / name)
            refused(f"{name} is missing", published(version, version))
            (directory / name).rename(files / name)
        (files / names[0]).write_text("changed")
        refused("differs from its sum", published(version, version))
        (files / names[0]).write_text(names[0])
        renamed = files / "helve_1.11.0~rc.1-1_arm64.deb"
        renamed.write_text("")
        refused("GitHub changes such a name", published(version, version))
        renamed.unlink()
        expect(not called.exists(), "something was called before the release was whole")
        expect(published(version, version).returncode != 0, "the stand-in for docker fails")
        equal(called.read_text(), "docker\n", f"what a whole release {version} calls")
    return "2 versions, 9 refusals"


def package_of_a_pre_release_has_a_name_that_github_keeps() -> str:
    for version, debian in (("0.1.0", "0.1.0-1"), ("0.1.0-rc.1", "0.1.0.rc.1-1"), ("0.1.0-rc-2", "0.1.0.rc-2-1")):
        name = ran("debian-file", version, "amd64").stdout.strip()
        equal(name, f"helve_{debian}_amd64.deb", f"package of {version}")
        expect(re.fullmatch(r"[\w.-]+", name), f"{name}: GitHub changes it")
    # What the package says of itself keeps its tilde, so that a pre-release is older than its release.
    equal(ran("debian-version", "0.1.0-rc.1").stdout, "0.1.0~rc.1-1\n", "version")
    refused("two arguments", ran("debian-file", "0.1.0"))
    refused("is no version", ran("debian-file", "v0.1.0", "amd64"))
    return "3 names, 2 refusals"


def workflows_fit_their_schema(directory: Path) -> str:
    files = sorted(WORKFLOWS.glob("*.yml"))
    expect(len(files) >= 2, "workflows are missing")

    def checked(*paths: Path) -> subprocess.CompletedProcess[str]:
        command = [CHECKER, "--builtin-schema", "vendor.github-workflows", *paths]
        return subprocess.run([str(part) for part in command], capture_output=True, text=True)

    ended = checked(*files)
    expect(ended.returncode == 0, ended.stdout + ended.stderr)
    wrong = directory / "wrong.yml"
    wrong.write_text(files[0].read_text().replace("runs-on:", "run-on:"))
    expect(checked(wrong).returncode != 0, "a misspelt key is not found")
    return ", ".join(path.name for path in files)


def workflows_name_what_exists() -> str:
    """Actions by commit, scripts that are there, and the Rust of the Dockerfile."""
    rust = re.search(r"HELVE_BUILD_IMAGE=rust:([\d.]+)-", (TOP / "deploy/Dockerfile").read_text()).group(1)
    actions = set()
    for path in sorted(WORKFLOWS.glob("*.yml")):
        text = path.read_text()
        for used in re.findall(r"^\s*(?:- )?uses: (.+)$", text, re.M):
            if not used.startswith("./"):
                expect(re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", used), f"{path.name}: {used}: name the commit, and its tag behind it")
                actions.add(used.split("@")[0])
        for script in re.findall(r"\.ci/[a-z/-]+", text):
            expect((TOP / script).exists(), f"{path.name} calls {script}, which is not there")
        equal(set(re.findall(r'RUSTUP_TOOLCHAIN: "(.+)"', text)), {rust}, f"{path.name}: Rust")
        expect(re.search(r"^permissions: \{\}$|^permissions:\n  contents: read$", text, re.M), f"{path.name}: no least permissions at the top")
    return ", ".join(sorted(actions))


def release_needs_every_job_and_the_history_of_an_upgrade() -> str:
    """What publishes waits for all other jobs, and a job that builds the release before has a checkout with its tag."""
    text = (WORKFLOWS / "release.yml").read_text()
    _, *parts = re.split(r"^  ([a-z]+):$", text.split("\njobs:\n")[1], flags=re.M)
    jobs = dict(zip(parts[::2], parts[1::2]))
    needed = re.search(r"^    needs: \[(.+)\]$", jobs["publish"], re.M)
    expect(needed is not None, "publish needs no jobs")
    # The notes are what all others need.
    equal(set(needed.group(1).split(", ")), set(jobs) - {"publish", "notes"}, "jobs that publish needs")
    rolling = [name for name, job in jobs.items() if "upgrade-test" in job]
    equal(len(rolling), 1, "jobs that roll from the release before")
    expect("fetch-depth: 0" in jobs[rolling[0]], f"{rolling[0]} has no history to build the release before from")
    target = re.search(r"^upgrade-test:.*\n((?:\t.*\n)+)", (TOP / "Makefile").read_text(), re.M)
    expect(target is not None and "build-before" in target.group(1), "make upgrade-test builds no release before")
    return ", ".join(sorted(jobs))


def scripts_pass_shellcheck(directory: Path) -> str:
    def checked(*paths: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["shellcheck", *map(str, paths)], capture_output=True, text=True)

    ended = checked(*SCRIPTS)
    expect(ended.returncode == 0, ended.stdout)
    wrong = directory / "wrong.sh"
    wrong.write_text("#!/bin/sh\nrm -r $1\n")
    expect(checked(wrong).returncode != 0, "an unquoted name is not found")
    return f"{len(SCRIPTS)} scripts"


def missing() -> str | None:
    if shutil.which("shellcheck") is None:
        return "no shellcheck: install the package shellcheck"
    if not CHECKER.exists():
        return f"no {CHECKER}: .ci/tools deploy installs it"
    return None
