"""The Debian package: built of the binary, then installed, upgraded, removed and purged over this machine's own root.

The root is an overlay in a mount namespace of its own, so nothing of it remains. A stand-in for `systemctl` records what the
package's scripts ask systemd for.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from checks import equal, expect

TOP = Path(__file__).resolve().parents[2]
RELEASE = TOP / ".ci/release"
ASKED = "/run/asked-of-systemd"
SYSTEMCTL = f"""#!/bin/sh
echo "$*" >>{ASKED}
case "$*" in *is-active*) exit 0 ;; esac
"""
# What deb-systemd-invoke would be asked beyond that is not what is tested.
HARMLESS = ("is-active", "daemon-reload", "is-enabled", "show")
CONFIG = "/etc/helve/helve.env"


def run(*command: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, env=os.environ | more)


def done(*command: str | Path, **more: str) -> str:
    ended = run(*command, **more)
    expect(ended.returncode == 0, f"{' '.join(map(str, command))}: {ended.stdout[-300:]}{ended.stderr[-600:]}")
    return ended.stdout + ended.stderr


def missing() -> str | None:
    """Why this machine cannot install a package beside itself."""
    if shutil.which("dpkg-shlibdeps") is None or shutil.which("dpkg") is None:
        return "no dpkg-shlibdeps: install the package dpkg-dev"
    if os.geteuid() != 0:
        return "mounting takes root"
    with tempfile.TemporaryDirectory() as place:
        root = Root(Path(place))
        try:
            return None if root.mounted else "an overlay over / cannot be mounted"
        finally:
            root.close()


class Root:
    """This machine's root, on which nothing that is changed remains."""

    def __init__(self, packages: Path) -> None:
        mounting = (
            'm=$(mktemp -d) && mount -t tmpfs none "$m" && mkdir "$m/upper" "$m/work" "$m/root" &&'
            ' mount -t overlay overlay -o "lowerdir=/,upperdir=$m/upper,workdir=$m/work" "$m/root" &&'
            ' mkdir -p "$m/root/packages" && mount --bind "$1" "$m/root/packages" &&'
            ' mount -t proc proc "$m/root/proc" && mount --bind /dev "$m/root/dev" &&'
            ' mkdir -p "$m/root/run/systemd/system" && echo "$m/root" && cat; umount -R "$m"; rmdir "$m"'
        )
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", mounting, "sh", str(packages)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.path = self.holder.stdout.readline().strip()
        self.mounted = self.path != ""
        if self.mounted:
            # The last one forbids to stop services, in images of containers.
            self.done("rm", "-rf", "/var/lib/helve", "/etc/helve", "/usr/sbin/policy-rc.d")
            self.write("/usr/local/bin/systemctl", SYSTEMCTL, mode="755")

    def run(self, *command: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        inside = ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", "chroot", self.path, "env", "-i"]
        inside += ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive"]
        return subprocess.run([*inside, *command], capture_output=True, text=True, input=stdin)

    def dpkg(self, *arguments: str) -> str:
        """Without triggers: that man-db indexes a page is not what is tested, and takes seconds."""
        return self.done("dpkg", "--no-triggers", *arguments)

    def done(self, *command: str, stdin: str | None = None) -> str:
        ended = self.run(*command, stdin=stdin)
        expect(ended.returncode == 0, f"{' '.join(command)}: {ended.stdout[-300:]}{ended.stderr[-600:]}")
        return ended.stdout + ended.stderr

    def write(self, path: str, text: str, mode: str = "600") -> None:
        self.done("install", "-m", mode, "/dev/stdin", path, stdin=text)

    def holds(self, path: str) -> bool:
        return self.run("test", "-e", path).returncode == 0

    def asked(self) -> list[str]:
        """What systemd was asked to do since the last look."""
        said = self.run("cat", ASKED).stdout.splitlines()
        self.done("rm", "-f", ASKED)
        return [line for line in said if not any(word in line.split() for word in HARMLESS)]

    def close(self) -> None:
        self.holder.communicate("", timeout=60)


class Packages:
    """The package of a binary, and one of an older version with the same content."""

    def __init__(self, helve: Path, directory: Path) -> None:
        self.directory = directory / "packages"
        self.directory.mkdir()
        self.architecture = done("dpkg", "--print-architecture").strip()
        self.binary = self.directory / "helve"
        done("strip", "-o", self.binary, helve)
        self.version = done(self.binary, "--version").split()[1]
        self.new = Path(self.built(self.binary, self.version, self.architecture).stdout.strip())
        expect(self.new.is_file(), "no package was built")
        self.old = self.directory / "older.deb"
        tree = self.directory / "older"
        done("dpkg-deb", "--raw-extract", self.new, tree)
        control = tree / "DEBIAN/control"
        older = done(RELEASE / "debian-version", f"{self.version}-rc.1").strip()
        control.write_text(control.read_text().replace(f"Version: {self.debian_version}", f"Version: {older}"))
        done("dpkg-deb", "-Znone", "--build", tree, self.old)
        shutil.rmtree(tree)

    @property
    def debian_version(self) -> str:
        return done(RELEASE / "debian-version", self.version).strip()

    def built(self, binary: Path, version: str, architecture: str) -> subprocess.CompletedProcess[str]:
        return run(RELEASE / "deb", binary, version, architecture, self.directory, DEB_COMPRESSION="none")


def versions_sort_as_releases_do() -> str:
    ordered = ["0.1.0-alpha", "0.1.0-rc.1", "0.1.0-rc.2", "0.1.0", "0.1.1-rc-1", "0.1.1"]
    mapped = [done(RELEASE / "debian-version", version).strip() for version in ordered]
    for older, newer in zip(mapped, mapped[1:]):
        done("dpkg", "--compare-versions", older, "lt", newer)
    for wrong in ("v0.1.0", "0.1", "0.1.0 ", "0.1.0-", ""):
        expect(run(RELEASE / "debian-version", wrong).returncode == 1, f"'{wrong}' is taken")
    return " < ".join(mapped)


def wrong_binaries_are_refused(packages: Packages, helve: Path) -> str:
    other = "arm64" if packages.architecture == "amd64" else "amd64"
    script = packages.directory / "script"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    for why, binary, version, architecture in (
        ("no binary for", packages.binary, packages.version, other),
        ("architecture 'x86'", packages.binary, packages.version, "x86"),
        ("says that it is", packages.binary, "99.0.0", packages.architecture),
        ("is no version", packages.binary, "v1", packages.architecture),
        ("no binary for", script, packages.version, packages.architecture),
        ("no file that can be run", packages.directory / "absent", packages.version, packages.architecture),
        ("strip it", helve, packages.version, packages.architecture),
    ):
        ended = packages.built(binary, version, architecture)
        expect(ended.returncode == 1 and why in ended.stderr, f"'{why}' is expected: {ended.stderr}")
    return packages.architecture


def package_says_what_it_needs(packages: Packages) -> str:
    needs = done("dpkg-deb", "--field", packages.new, "Depends").strip()
    for library in ("libc6 (>= ", "libstdc++6 (>= ", "libgcc-s1 (>= "):
        expect(library in needs, f"{library} is not among: {needs}")
    equal(done("dpkg-deb", "--field", packages.new, "Architecture").strip(), packages.architecture, "architecture")
    listed = done("dpkg-deb", "--contents", packages.new)
    private = [line for line in listed.splitlines() if line.endswith("./etc/helve/")]
    expect(private and private[0].startswith("drwx------ root/root"), f"/etc/helve: {private}")
    return needs


def new_node_is_not_started(packages: Packages, root: Root) -> str:
    root.dpkg("--install", f"/packages/{packages.old.name}")
    equal(root.asked(), [], "systemd was asked")
    equal(root.done("stat", "-c", "%a %U %G %F", "/var/lib/helve").strip(), "700 helve helve directory", "data directory")
    equal(root.done("stat", "-c", "%a %U", "/etc/helve").strip(), "700 root", "directory of secrets")
    equal(root.done("helve", "--version").strip(), f"helve {packages.version}", "version")
    said = root.done("systemd-analyze", "verify", "/usr/lib/systemd/system/helve.service")
    expect("helve" not in said, said)
    return root.done("getent", "passwd", "helve").strip()


def shipped_settings_start_no_node(root: Root) -> str:
    """As the unit would: with the settings as they are shipped."""
    command = f"set -a\n{root.done('cat', CONFIG)}\nHELVE_DATA_DIR=/var/lib/helve exec helve serve"
    ended = root.run("runuser", "-u", "helve", "--", "sh", "-c", command)
    equal(ended.returncode, 2, f"status: {ended.stderr}")
    expect("--id" in ended.stderr and "--peers" in ended.stderr, ended.stderr)
    equal(root.done("ls", "-A", "/var/lib/helve"), "", "files of a node that was refused")
    return "status 2"


def upgrade_keeps_all_and_restarts_nothing(packages: Packages, root: Root) -> str:
    settings = "HELVE_ID=1\nHELVE_LISTEN=10.0.0.1:7400\n"
    root.write(CONFIG, settings, mode="644")
    root.write("/etc/helve/data.key", "a key\n")
    root.done("runuser", "-u", "helve", "--", "touch", "/var/lib/helve/node.json")
    said = root.dpkg("--install", f"/packages/{packages.new.name}")
    equal(root.asked(), [], "systemd was asked")
    expect("still runs version" in said, f"the operator is not told to restart: {said}")
    told = re.search(r"^ *helve (status .*) && systemctl restart helve$", said, re.M)
    expect(told is not None, f"no command: {said}")
    status = told.group(1).split()
    for flag, value in (("--endpoints", "10.0.0.1:7400"), ("--tls-ca", "/etc/helve/ca.crt"), ("--token-file", "/etc/helve/operator.token")):
        expect(flag in status and status[status.index(flag) + 1] == value, f"{flag} is not {value}: {said}")
    # Flags before --help that it does not know are refused.
    root.done("helve", *status, "--help")
    equal(root.done("dpkg-query", "--show", "--showformat=${Version}", "helve"), packages.debian_version, "version")
    equal(root.done("cat", CONFIG), settings, "settings")
    expect(root.holds("/var/lib/helve/node.json") and root.holds("/etc/helve/data.key"), "data or key is gone")
    return f"{packages.old.name} to {packages.new.name}"


def removal_stops_the_node_and_keeps_its_data(root: Root) -> str:
    root.dpkg("--remove", "helve")
    asked = root.asked()
    expect(any("stop" in line and "helve.service" in line for line in asked), f"the node is not stopped: {asked}")
    expect(not root.holds("/usr/bin/helve"), "the binary is left")
    expect(root.holds(CONFIG) and root.holds("/var/lib/helve/node.json"), "settings or data are gone")
    return asked[0]


def purge_keeps_data_and_keys(packages: Packages, root: Root) -> str:
    link = "/etc/systemd/system/multi-user.target.wants/helve.service"
    root.done("ln", "-s", "/usr/lib/systemd/system/helve.service", link)
    said = root.dpkg("--purge", "helve")
    expect(not root.holds(CONFIG) and root.run("test", "-L", link).returncode != 0, "settings or the link are left")
    expect(root.holds("/var/lib/helve/node.json") and root.holds("/etc/helve/data.key"), "data or key is gone")
    for directory in ("/var/lib/helve", "/etc/helve"):
        expect(f"{directory} holds files and is kept" in said, said)
    root.dpkg("--install", f"/packages/{packages.new.name}")
    root.done("rm", "/var/lib/helve/node.json", "/etc/helve/data.key")
    root.dpkg("--purge", "helve")
    expect(not root.holds("/var/lib/helve") and not root.holds("/etc/helve"), "empty directories are left")
    return "kept with files, removed without"
