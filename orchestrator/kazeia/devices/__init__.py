"""Where the runner runs. Everything that touches a device goes through `base.Device`."""
