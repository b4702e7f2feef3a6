# tools/ebb_sidecar/settings.py: the sidecar's settings: a TOML file, or one ComfyUI on the command line.
from __future__ import annotations

import difflib
import ipaddress
import socket
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from urllib.parse import urlsplit


MIB_MAX = 1 << 20
WAIT_MAX_S = 3600  # Ebb's own limit
LINGER_MAX_S = 1e6


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
    allow_network: bool = False  # listen may be an address that other machines reach


@dataclass(frozen=True)
class Settings:
    connect: str = ""
    keys: str = ""
    peaks_file: str = ""
    servers: tuple[Server, ...] = field(default=(Server(),))


def _check(server: Server, where: str) -> Server:
    def wrong(name: str, allowed: str) -> Wrong:
        return Wrong(f"{where}{name} = {getattr(server, name)!r}: allowed is {allowed}")

    if not is_address(server.url):
        raise wrong("url", "an address such as http://127.0.0.1:8188")
    if server.listen:
        host, _ = address_of(server.listen, lambda: wrong("listen", 'address:port, such as "127.0.0.1:8189", or "" to watch only'))
        if not server.allow_network and not _is_loopback(host):
            raise wrong("listen", "an address of this machine alone, such as 127.0.0.1: ComfyUI has no login, and whoever reaches the port could use it. "
                                  "allow_network = true (--allow-network) opens it all the same")
    if not server.device:
        raise wrong("device", 'a card\'s number in `ebb status`, a UUID, a PCI address or "auto"')
    for name, least, most in (("first_guess_mib", 0, MIB_MAX), ("max_mib", 1, MIB_MAX), ("linger_s", 0, LINGER_MAX_S), ("wait_s", 0, WAIT_MAX_S)):
        if not least <= getattr(server, name) <= most:  # so that nan is none either
            raise wrong(name, f"a number from {least} to {most:.0f}")
    if server.first_guess_mib > server.max_mib:
        raise wrong("first_guess_mib", f"a whole number up to max_mib, {server.max_mib}")
    return server


def is_address(text: str) -> bool:
    try:
        url = urlsplit(text)
        return url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0  # a port above 65535 raises
    except ValueError:
        return False


def address_of(listen: str, wrong) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise wrong()
    return host.strip("[]"), int(port)


def _addresses(host: str) -> set[str]:
    try:
        return {info[4][0] for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return set()


def _is_loopback(host: str) -> bool:
    return all(ipaddress.ip_address(address.split("%")[0]).is_loopback for address in _addresses(host))  # a name that is none fails when it is listened on


def _is_own(address: str) -> bool:
    """Whether it is this machine's, so that 0.0.0.0 stands for it."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def _leads_to(server: Server, listen: str) -> bool:
    """Whether the ComfyUI of `server` would be that port of ours."""
    host, port = address_of(listen, lambda: Wrong("listen"))
    url = urlsplit(server.url)
    if port == 0 or port != (url.port or (443 if url.scheme == "https" else 80)):
        return False
    here, there = _addresses(host), _addresses(url.hostname)
    is_any = any(ipaddress.ip_address(address.split("%")[0]).is_unspecified for address in here)
    return host == url.hostname or bool(here & there) or (is_any and any(_is_own(address) for address in there))


def _without_circles(servers: tuple[Server, ...], where: str) -> tuple[Server, ...]:
    for server in servers:
        for other in servers:
            if other.listen and _leads_to(server, other.listen):
                raise Wrong(f"{where}url = {server.url!r} is the port of listen = {other.listen!r} itself: allowed is ComfyUI's own address, and another port to listen on")
    return servers


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
        if isinstance(value, bool) != isinstance(default, bool) or not is_fine:
            raise Wrong(f"{where}{name} = {value!r}: allowed is {'true or false' if isinstance(default, bool) else 'a text' if isinstance(default, str) else 'a number'}")
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
    return Settings(top.connect, top.keys, top.peaks_file, _without_circles(servers, f"{path}: "))


def of_one(server: Server, connect: str, keys: str, peaks_file: str) -> Settings:
    return Settings(connect, keys, peaks_file, _without_circles((_check(server, ""),), ""))
