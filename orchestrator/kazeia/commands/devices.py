"""`kz devices`: what can be reached, and what is on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kazeia.commands.output import print_json

if TYPE_CHECKING:
    from kazeia.device_list import Entry


@click.command("devices")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(as_json: bool) -> None:
    """List the devices of adb and the ssh hosts that were deployed to (or are $KZ_DEVICE), and what is deployed there."""
    from kazeia.device_list import list_devices

    entries = list_devices()
    if as_json:
        print_json({"devices": [entry.as_dict() for entry in entries]})
        return
    if not entries:
        click.echo("no devices: plug one in with USB debugging on, or name one with kz deploy --device ssh:USER@HOST")
    for entry in entries:
        click.echo(_text(entry))


def _text(entry: Entry) -> str:
    lines = [f"{entry.name}: {entry.state}"]
    if entry.advice:
        lines.append(f"  {entry.advice}")
    if entry.description is not None:
        found = entry.description
        system = f"Android {found.android}" if found.android else "no Android"
        lines.append(f"  {', '.join(filter(None, (found.model, found.soc, found.abi, system)))}")
        lines.append(f"  {found.free_bytes / 1e9:,.1f} GB free in {entry.folder}")
        lines += [
            f"  deployed: {listing['model']} for {listing['backend']}, {listing['quant']}, context {listing['context_length']}"
            for listing in found.deployed
        ] or ["  nothing deployed"]
    return "\n".join(lines)
