"""`kz doctor`: what is wrong, before anyone waits."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from kazeia.commands.output import print_json
from kazeia.errors import ChecksFailed

if TYPE_CHECKING:
    from kazeia.doctor import Check

MARKS = {"ok": "ok  ", "note": "note", "bad": "BAD "}


@click.command("doctor")
@click.option(
    "--device", help="Also check this device: adb, adb:SERIAL or ssh:USER@HOST[:PORT]. [default: $KZ_DEVICE, the last one]"
)
@click.option("--bundle", help="Bundle to check. [default: as kz speak]")
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
def command(device: str | None, bundle: str | None, as_json: bool) -> None:
    """Check this machine, and a device; the exit status tells whether anything is bad."""
    from kazeia.doctor import host_checks

    found: list[Check] = []
    for check in [*host_checks(bundle), *_device_checks(device, bundle)]:
        found.append(check)
        if not as_json:
            click.echo(f"{MARKS[check.result]} {check.name}: {check.detail}" + (f"\n     fix: {check.fix}" if check.fix else ""))
    bad = [check.name for check in found if check.result == "bad"]
    if as_json:
        print_json({"ok": not bad, "checks": [dataclasses.asdict(check) for check in found]})
    if bad:
        raise ChecksFailed(f"{len(bad)} of {len(found)} checks are bad: {', '.join(bad)}")


def _device_checks(given: str | None, bundle: str | None) -> Iterator[Check]:
    """The device's checks; none if no device was named and none was deployed to."""
    from kazeia.bundle_choice import open_bundle
    from kazeia.devices.choice import choose_remote
    from kazeia.doctor import Check
    from kazeia.doctor_device import device_checks
    from kazeia.errors import KazeiaError
    from kazeia.home import load_state

    name = given or os.environ.get("KZ_DEVICE") or load_state().last_device
    if not name or name == "local":
        return
    try:
        device = choose_remote(name)
        opened = open_bundle(bundle)
    except KazeiaError as error:
        detail, _, fix = str(error).partition("; ")
        yield Check("device", "bad", detail, fix or None)
        return
    yield from device_checks(device, opened)
