"""Where things are in Kazeia's folder on a device.

    blobs/<SHA-256>               every file's content, once
    blobs/.<SHA-256>.part         a file on its way
    deployments/<id>/             links to blobs: launch.sh, kz_runner, lib/, bundle/, voices/, deployment.json
    deployments/<id>/verified     sizes, times and inodes of those files when their hashes were checked
    current/<manifest id>         the id of the newest deployment of that bundle
    runs/<run id>/                pid, status and log of one runner

A deployment is assembled under another name and renamed, so what is there is whole.
"""

from __future__ import annotations

import hashlib

BLOBS = "blobs"
DEPLOYMENTS = "deployments"
CURRENT = "current"
RUNS = "runs"

BUNDLE = "bundle"
LIBRARIES = "lib"
VOICES = "voices"
RUNNER = "kz_runner"
LAUNCH_SCRIPT = "launch.sh"
LISTING = "deployment.json"
VERIFIED = "verified"

ID_LETTERS = 16


def content_id(content: bytes) -> str:
    """The id of a manifest, or of the deployment that a listing describes."""
    return hashlib.sha256(content).hexdigest()[:ID_LETTERS]


FINGERPRINT = f"find . ! -name {VERIFIED} ! -type d -exec stat -L -c '%n %s %y %i' {{}} + | sort"
"""In a deployment: one line a file, other once a file was changed."""
