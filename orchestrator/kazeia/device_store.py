"""Files on a device by their SHA-256: what is there, sending what is not, and linking it into deployments (devices/layout.py)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kazeia.devices import layout
from kazeia.devices.remote import COMMAND_TIMEOUT_S, RemoteDevice
from kazeia.devices.shell import Completed, quote
from kazeia.errors import DeviceError

SEGMENT_BYTES = 64 << 20
"""A larger file travels in pieces, so that a cut loses one piece, not gigabytes."""

SLOWEST_BYTES_PER_S = 20e6
"""Of a device that hashes or copies; time limits are made from it."""

NO_TOOLS_TOOL, NOT_WRITABLE, NOT_EXECUTABLE, SHORT, FULL, DAMAGED = 90, 91, 92, 93, 94, 95
"""Exit statuses of our scripts."""

_FREE = "free some space on it, or remove older deployments with kz deploy --prune"

# Comparisons are of texts: Android's shell counts in 32 bits, and files are larger.
_TOOLS = f"""digest() {{
  if command -v sha256sum >/dev/null; then sha256sum "$@"
  elif toybox sha256sum /dev/null >/dev/null 2>&1; then toybox sha256sum "$@"
  elif busybox sha256sum /dev/null >/dev/null 2>&1; then busybox sha256sum "$@"
  elif command -v openssl >/dev/null; then openssl dgst -sha256 -r "$@"
  else exit {NO_TOOLS_TOOL}; fi
}}
size() {{ set -- $(wc -c <"$1"); echo "$1"; }}
"""


@dataclass(frozen=True)
class Blob:
    """A file's content, on this machine."""

    source: Path
    bytes: int
    sha256: str
    executable: bool = False


@dataclass(frozen=True)
class Inventory:
    """What is on the device already."""

    present: frozenset[str]
    """SHA-256 of the blobs whose content was hashed just now."""
    parts: dict[str, int]
    """SHA-256 of a blob to the bytes of it that an interrupted deploy has sent."""
    whole: bool
    """Every file of the deployment is linked and the bundle's newest deployment is this one."""


class DeviceStore:
    """Kazeia's folder on a device. Every method may raise `DeviceError` when the device is lost or refuses."""

    def __init__(self, device: RemoteDevice) -> None:
        self._device = device

    def probe(self) -> None:
        """Write and run a tiny program where the folder is, or will be.

        Raises:
            DeviceError: that is not possible; says why and what to do.
        """
        done = self._device.run(f"""d={quote(self._device.folder)}
while [ ! -d "$d" ]; do case $d in */*) d=${{d%/*}}; [ -n "$d" ] || d=/ ;; *) d=. ;; esac; done
t=$d/.kz-probe-$$
mkdir "$t" || exit {NOT_WRITABLE}
printf '#!%s\\nexit 42\\n' "$(command -v sh)" >"$t/run" && chmod 755 "$t/run" && "$t/run"
s=$?
rm -rf "$t"
[ $s = 42 ] || exit {NOT_EXECUTABLE}""")
        where = f"{self._device.name}: {self._device.folder}"
        if done.status == NOT_EXECUTABLE:
            raise DeviceError(
                f"{where} is on a file system that runs no programs (mounted noexec, as /sdcard always is); "
                "choose another folder with --folder, such as one in /data/local/tmp"
            )
        if done.status:
            raise DeviceError(f"{where} cannot be written ({done.reason}); choose another folder with --folder")

    def inventory(self, blobs: Iterable[Blob], deployment: str, bundle: str, paths: Sequence[str]) -> Inventory:
        """Hash those of `blobs` that are there, in one call; also look at interrupted transfers and at the `deployment`.

        Args:
            bundle: id of the bundle's manifest.
            paths: the deployment's files.
        """
        blobs = list(blobs)
        script = f"""{_TOOLS}cd {quote(self._device.folder)} 2>/dev/null || exit 0
for f in {layout.BLOBS}/.*.part; do [ -f "$f" ] && echo "part $(size "$f") ${{f##*/}}"; done
if [ "$(cat {layout.CURRENT}/{bundle} 2>/dev/null)" = {deployment} ] && cd {layout.DEPLOYMENTS}/{deployment} 2>/dev/null; then
  whole=yes
  for f in {" ".join(quote(path) for path in paths)}; do [ -f "$f" ] || whole=no; done
  echo "whole $whole"
  cd ../..
fi
cd {layout.BLOBS} 2>/dev/null || exit 0
set --
for f in {" ".join(blob.sha256 for blob in blobs)}; do [ -f "$f" ] && set -- "$@" "$f"; done
[ $# = 0 ] || digest "$@"
"""
        done = self._device.run(script, _limit_s(sum(blob.bytes for blob in blobs)))
        self._expect(done, "look at what is there")
        present, parts, whole = set(), {}, False
        for line in done.stdout.splitlines():
            match line.split():
                case ["part", size, name] if size.isdigit():
                    parts[name[1:].removesuffix(".part")] = int(size)
                case ["whole", answer]:
                    whole = answer == "yes"
                case [digest, name] if digest == name.removeprefix("*"):
                    present.add(digest)
        return Inventory(frozenset(present), parts, whole)

    def create(self) -> None:
        """Make the folders."""
        folders = (layout.BLOBS, layout.DEPLOYMENTS, layout.CURRENT, layout.RUNS)
        names = " ".join(quote(f"{self._device.folder}/{name}") for name in folders)
        self._expect(self._device.run(f"umask 022\nmkdir -p {names}"), f"create {self._device.folder}")

    def send(self, blob: Blob, sent_bytes: int, progress: Callable[[int], None]) -> None:
        """Send `blob`, of which the device has `sent_bytes`, as far as `accept`, which must follow."""
        part, piece = self._path(f".{blob.sha256}.part"), self._path(f".{blob.sha256}.piece")
        for offset in range(sent_bytes, max(blob.bytes, 1), SEGMENT_BYTES):
            size = min(SEGMENT_BYTES, blob.bytes - offset)
            target = piece if offset else part
            try:
                self._device.push(blob.source, offset, size, target, progress)
                if offset:
                    self._append(blob, size)
            except DeviceError:
                if offset:  # a part is worth keeping, it can be continued
                    with contextlib.suppress(DeviceError):
                        self._device.run(f"rm -f {quote(piece)}")
                raise

    def accept(self, blobs: Sequence[Blob]) -> None:
        """Check what was sent, all of it in one call: size and SHA-256. What is right gets its name, what is not is removed.

        Raises:
            DeviceError: something was not right.
        """
        if not blobs:
            return
        wanted = " ".join(f"{blob.sha256} {blob.bytes} {755 if blob.executable else 644}" for blob in blobs)
        done = self._run_in_blobs(
            f"""parts=
set -- {wanted}
while [ $# -gt 0 ]; do
  n=$(size .$1.part)
  [ "$n" = "$2" ] || {{ echo "$n of $2"; rm -f .$1.part; exit {SHORT}; }}
  chmod $3 .$1.part
  parts="$parts .$1.part"
  shift 3
done
sums=$(digest $parts) || exit
echo "$sums" | while read -r d f; do
  f=${{f#'*'}}
  if [ ".$d.part" = "$f" ]; then mv -f "$f" "$d" && echo right; else rm -f "$f"; fi
done""",
            sum(blob.bytes for blob in blobs),
        )
        if done.status == SHORT:
            arrived = done.stdout.strip()
            raise DeviceError(
                f"{self._device.name} has {arrived} bytes of a file though it reported success: it is full; {_FREE}"
            )
        self._expect(done, "check what was sent")
        if done.stdout.split().count("right") != len(blobs):
            raise DeviceError(
                f"{self._device.name} received a file damaged (SHA-256 differs); run kz deploy again, if need be on another cable"
            )

    def assemble(self, deployment: str, links: dict[str, str]) -> None:
        """Make the folder of a deployment under a name that nothing looks for; `links` is path to SHA-256."""
        lines = [f"rm -rf {_new(deployment)}"]
        folders = sorted({path.rpartition("/")[0] for path in links})
        lines += [f"mkdir -p {_new(deployment)}/{quote(folder)}" for folder in folders]
        for path, digest in links.items():
            up = "../" * (2 + path.count("/"))
            lines.append(f"ln -s {up}{layout.BLOBS}/{digest} {_new(deployment)}/{quote(path)}")
        script = "umask 022\n" + " &&\n".join([f"cd {quote(self._device.folder)}", *lines])
        self._expect(self._device.run(script), "put the deployment together")

    def runner_version(self, deployment: str) -> Completed:
        """Run the assembled deployment's `kz_runner --version`."""
        return self._device.run(
            f"cd {quote(self._device.folder)}/{_new(deployment)} || exit\n"
            f'LD_LIBRARY_PATH="{layout.LIBRARIES}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}" exec ./{layout.RUNNER} --version'
        )

    def publish(self, deployment: str, bundle: str, *, assembled: bool) -> None:
        """Let the deployment be found: rename it if it was `assembled` anew, note how its checked files look, point to it."""
        rename = f"rm -rf {layout.DEPLOYMENTS}/{deployment} &&\nmv -f {_new(deployment)} {layout.DEPLOYMENTS}/{deployment} &&\n"
        self._expect(
            self._device.run(f"""umask 022
cd {quote(self._device.folder)} &&
{rename if assembled else ""}cd {layout.DEPLOYMENTS}/{deployment} &&
{layout.FINGERPRINT} >../.{deployment}.{layout.VERIFIED} &&
mv -f ../.{deployment}.{layout.VERIFIED} {layout.VERIFIED} &&
cd ../../{layout.CURRENT} && echo {deployment} >.{bundle}.new && mv -f .{bundle}.new {bundle}"""),
            "finish the deployment",
        )

    def prune(self, deployment: str, bundle: str, keep: Iterable[str]) -> int:
        """Remove every other deployment, all blobs but `keep`, broken-off transfers and old runs; how many deployments went."""
        done = self._device.run(
            f"""cd {quote(self._device.folder)} || exit
for f in {layout.CURRENT}/*; do [ "${{f##*/}}" = {bundle} ] || rm -f "$f"; done
cd {layout.DEPLOYMENTS} || exit
for f in * .*.new; do
  if [ -d "$f" ] && [ "$f" != {deployment} ]; then rm -rf "$f" && echo gone; fi
done
cd ../{layout.BLOBS} || exit
keep=" {" ".join(keep)} "
for f in * .*.part .*.piece; do case $keep in *" $f "*) ;; *) rm -f "$f" ;; esac; done
cd ../{layout.RUNS} && rm -rf -- *""",
            timeout_s=2 * COMMAND_TIMEOUT_S,
        )
        self._expect(done, "remove older deployments")
        return done.stdout.split().count("gone")

    def _append(self, blob: Blob, size: int) -> None:
        """Add the piece that was sent to the part, after a look at its size."""
        part, piece = f".{blob.sha256}.part", f".{blob.sha256}.piece"
        done = self._run_in_blobs(
            f'n=$(size {piece})\n[ "$n" = {size} ] || {{ echo "$n of {size}"; exit {SHORT}; }}\n'
            f"cat {piece} >>{part} && rm -f {piece} || exit {FULL}",
            size,
        )
        if done.status in (SHORT, FULL):
            raise DeviceError(f"{self._device.name} is full ({done.stdout.strip() or done.reason}); {_FREE}")
        self._expect(done, "join the pieces of a file")

    def _run_in_blobs(self, script: str, size: int) -> Completed:
        """Run a script on blobs of `size` bytes together."""
        return self._device.run(f"{_TOOLS}cd {quote(self._path(''))} || exit\n{script}", _limit_s(size))

    def _path(self, name: str) -> str:
        return f"{self._device.folder}/{layout.BLOBS}/{name}"

    def _expect(self, done: Completed, what: str) -> None:
        if done.status == NO_TOOLS_TOOL:
            raise DeviceError(f"{self._device.name} has no tool for SHA-256; install sha256sum, toybox, busybox or openssl")
        if done.status:
            raise DeviceError(f"{self._device.name} cannot {what}: {done.reason}; choose another folder with --folder")


def _new(deployment: str) -> str:
    return f"{layout.DEPLOYMENTS}/.{deployment}.new"


def _limit_s(size_bytes: int) -> float:
    return COMMAND_TIMEOUT_S + size_bytes / SLOWEST_BYTES_PER_S
