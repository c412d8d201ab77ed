"""An adbd of the tests' own, for real adb clients, on loopback TCP.

::

    with Sandbox(tmp_path / "device") as sandbox, Adbd(sandbox) as device:
        adb.connect(device)
        adb("-s", device.serial, "push", "file", "/data/local/tmp/")
        device.faults = Faults(trips=(Trip("push", "cut", after_bytes=1000),))
        assert device.events("push")[0]["path"] == "/data/local/tmp/file"

It runs as a process of the sandbox, as Android's shell user. ``Config`` says what kind of device it is, ``Faults`` what goes
wrong. It speaks protocol versions 0x01000000 and 0x01000001, RSA authentication, ``shell:`` in both versions, ``exec:``,
``sync:`` in both versions, forwards and reverse forwards. It does not speak TLS (wireless pairing), compression or delayed
acknowledgements, and does not offer them.
"""

from .config import FEATURES, FEATURES_V1, Config
from .device import Adbd
from .faults import Faults, Trip

__all__ = ["FEATURES", "FEATURES_V1", "Adbd", "Config", "Faults", "Trip"]
