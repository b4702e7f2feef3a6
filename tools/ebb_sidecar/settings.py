# tools/ebb_sidecar/settings.py: the sidecar's settings: a TOML file, or one ComfyUI on the command line.
from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from urllib.parse import urlsplit


class Wrong(ValueError):
    """A setting that cannot be: names it, and says what is allowed."""


@dataclass(frozen=True)
class Server:
    url: str = "http://127.0.0.1:8188"
    listen: str = ""  # the gate's address:port; empty: its queue is only watched
    device: str = "auto"
    first_guess_mib: int = 0  # 0: max_mib
    max_mib: int = 16384
    linger_s: float = 20.0
    wait_s: int = 0


@dataclass(frozen=True)
class Settings:
    connect: str = ""
    keys: str = ""
    peaks_file: str = ""
    servers: tuple[Server, ...] = field(default=(Server(),))


def _check(server: Server, where: str) -> Server:
    def wrong(name: str, allowed: str) -> Wrong:
        return Wrong(f"{where}{name} = {getattr(server, name)!r}: allowed is {allowed}")

    url = urlsplit(server.url)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise wrong("url", "an address such as http://127.0.0.1:8188")
    if server.listen:
        address_of(server.listen, lambda: wrong("listen", 'address:port, such as "127.0.0.1:8189", or "" to watch only'))
    if not server.device:
        raise wrong("device", 'a card\'s number in `ebb status`, a UUID, a PCI address or "auto"')
    for name, least in (("first_guess_mib", 0), ("max_mib", 1), ("linger_s", 0), ("wait_s", 0)):
        if getattr(server, name) < least:
            raise wrong(name, f"a number from {least}")
    if server.wait_s > 3600:
        raise wrong("wait_s", "a whole number to 3600")
    if server.first_guess_mib > server.max_mib:
        raise wrong("first_guess_mib", f"a whole number up to max_mib, {server.max_mib}")
    return server


def address_of(listen: str, wrong) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise wrong()
    return host.strip("[]"), int(port)


def _of_table(kind, table: dict, where: str):
    known = {each.name: each for each in fields(kind) if each.name != "servers"}
    for name, value in table.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise Wrong(f"{where}{name} is no setting" + (f"; meant is {near[0]}" if near else f"; there are {', '.join(known)}"))
        default = known[name].default
        is_fine = isinstance(value, type(default)) or (isinstance(default, float) and isinstance(value, int))
        if name == "device" and isinstance(value, int):
            table[name], is_fine = str(value), True
        if isinstance(value, bool) or not is_fine:
            raise Wrong(f"{where}{name} = {value!r}: allowed is a {'text' if isinstance(default, str) else 'number'}")
    return kind(**table)


def read(path: Path) -> Settings:
    """Raises Wrong."""
    try:
        with open(path, "rb") as file:
            found = tomllib.load(file)
    except OSError as why:
        raise Wrong(f"{path} cannot be read: {why.strerror}") from why
    except tomllib.TOMLDecodeError as why:
        raise Wrong(f"{path} is not TOML: {why}") from why
    tables = found.pop("comfyui", [])
    if not isinstance(tables, list) or not tables:
        raise Wrong(f"{path} names no ComfyUI: add [[comfyui]] and url = ...")
    servers = tuple(_check(_of_table(Server, table, f"{path}: [[comfyui]] {i}: "), f"{path}: [[comfyui]] {i}: ") for i, table in enumerate(tables, 1))
    for key in ("url", "listen"):
        given = [getattr(server, key) for server in servers if getattr(server, key)]
        if len(set(given)) < len(given):
            raise Wrong(f"{path}: two [[comfyui]] have the same {key}")
    top = _of_table(Settings, found, f"{path}: ")
    return Settings(top.connect, top.keys, top.peaks_file, servers)


def of_one(server: Server, connect: str, keys: str, peaks_file: str) -> Settings:
    return Settings(connect, keys, peaks_file, (_check(server, ""),))
