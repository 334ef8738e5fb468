"""Compiled programs kept between runs, for the process of the command line only.

A library that is imported must not change JAX's settings; the command line owns its process and
does. It speaks to JAX through the environment, so that commands without JAX do not load it.
"""

import os
import platform
import sys
from collections.abc import MutableMapping
from pathlib import Path
from zlib import crc32

VARIABLE = "DEPTHRANK_CACHE"


def folder(environment: MutableMapping[str, str]) -> Path | None:
    """Return where compiled programs are kept; None if they are not.

    DEPTHRANK_CACHE names the folder, or is "off". Otherwise it lies in the user's cache folder.
    Programs are compiled for one kind of processor, so that each kind has a folder of its own: a
    home folder may be shared between machines.
    """
    chosen = environment.get(VARIABLE, "")
    if chosen.lower() in ("off", "0", "no"):
        return None
    return (Path(chosen) if chosen else _user_cache(environment) / "depthrank") / f"xla-{_kind()}"


def enable() -> None:
    """Make JAX, once it is loaded, keep and find its compiled programs there."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # XLA's remarks on programs it loads
    place = folder(os.environ)
    if place is None:
        return
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(place))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")


def _user_cache(environment: MutableMapping[str, str]) -> Path:
    if environment.get("XDG_CACHE_HOME"):
        return Path(environment["XDG_CACHE_HOME"])
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32" and environment.get("LOCALAPPDATA"):
        return Path(environment["LOCALAPPDATA"])
    return Path.home() / ".cache"


def _kind() -> str:
    """Name the kind of processor: the architecture and, where it can be read, its features."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            features = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:
        features = platform.processor()
    return f"{platform.machine()}-{crc32(features.encode()):08x}"
