# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Scripts of the published crate dial9-viewer, in cargo's own store of unpacked crates."""
import os
import pathlib
import subprocess

VERSION = "0.5.7"


def skills():
    """The folder of its skills: dial9-toolkit, dial9-red-flags .. ."""
    home = pathlib.Path(os.environ.get("CARGO_HOME", pathlib.Path.home() / ".cargo"))
    pattern = f"registry/src/*/dial9-viewer-{VERSION}/skills"
    found = sorted(home.glob(pattern))
    if not found:
        # `cargo info` downloads, verifies and unpacks that one crate.
        subprocess.run(["cargo", "info", "--quiet", f"dial9-viewer@{VERSION}"], cwd="/",
                       check=True, capture_output=True)
        found = sorted(home.glob(pattern))
    if not found:
        raise AssertionError(f"cargo did not unpack dial9-viewer {VERSION} below {home}")
    return found[0]
