# tools/comfyui_nodes/client.py: questions to Ebb over HTTP.
#
# Where Ebb is says the environment, never the workflow: one from elsewhere could otherwise have ComfyUI call any address, key and all.
#   EBB_URL           http://127.0.0.1:8080
#   EBB_API_KEY_FILE  a file with the key, where Ebb wants one (http.api_key_file); or EBB_API_KEY, the key itself
import http.client
import json
import os
import socket
from urllib.parse import urlsplit

DEFAULT_URL = "http://127.0.0.1:8080"
CONNECT_S = 5.0
KEY_MIN, KEY_MAX = 8, 4096
ANSWER_S = 90.0  # a resize takes milliseconds to seconds; Ebb has limits of its own below this


class EbbError(Exception):
    """Ebb refused, or does not answer (code "no_ebb"); the text says what to do."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def url():
    return os.environ.get("EBB_URL") or DEFAULT_URL


def is_local():
    """Whether our process number means anything to Ebb."""
    return (_address()[0].hostname or "") in ("127.0.0.1", "localhost", "::1")


def _address():
    """EBB_URL's parts and its port, or None."""
    try:
        at = urlsplit(url())
        port = at.port
    except ValueError:  # a port above 65535, or a bracket that does not close
        at, port = None, None
    if at is None or at.scheme not in ("http", "https") or not at.hostname:
        raise EbbError("no_ebb", f"EBB_URL={url()} is no address such as {DEFAULT_URL}")
    return at, port


def _key():
    """The key, or "": none is set. One that is no key is refused here, by ebbd's own rule: http.client would put it into its error, which ComfyUI shows."""
    path = os.environ.get("EBB_API_KEY_FILE")
    where, key = (f"EBB_API_KEY_FILE={path}", b"") if path else ("EBB_API_KEY", os.environ.get("EBB_API_KEY", "").encode(errors="surrogateescape"))
    if path:
        try:
            with open(path, "rb") as file:
                key = file.read(2 * KEY_MAX)
        except OSError as why:
            raise EbbError("no_key", f"{where} cannot be read: {why.strerror}") from why
    key = key.strip()
    if not key and not path:
        return ""
    if not KEY_MIN <= len(key) <= KEY_MAX or not all(0x21 <= byte <= 0x7E for byte in key):
        raise EbbError("no_key", f"{where} is no key: one line of {KEY_MIN} to {KEY_MAX} ASCII characters without blanks, as in ebbd's http.api_key_file")
    return key.decode("ascii")


class Call:
    """One request. close(), from any thread, breaks it off: Ebb forgets a lease that is still waited for, and ends an answer."""

    def __init__(self, method, path, body=None, wait_s=0.0):
        at, port = _address()
        kind = http.client.HTTPSConnection if at.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(at.hostname, port, timeout=CONNECT_S)
        self._path = at.path.rstrip("/") + path
        self._method, self._body, self._wait_s = method, body, wait_s
        self.was_closed = False

    def _open(self):
        headers = {"Accept": "application/json"}
        if key := _key():
            headers["Authorization"] = "Bearer " + key
        body = None
        if self._body is not None:
            body, headers["Content-Type"] = json.dumps(self._body).encode(), "application/json"
        try:
            self._connection.connect()
            self._connection.sock.settimeout(ANSWER_S + self._wait_s)
            self._connection.request(self._method, self._path, body, headers)
            answer = self._connection.getresponse()
            if answer.status >= 400:
                raise self._refusal(answer.status, answer.read())
            return answer
        except (OSError, UnicodeError, http.client.HTTPException) as why:  # UnicodeError: of a host's name
            raise EbbError("no_ebb", f"Ebb does not answer at {url()} ({why or type(why).__name__}); start ebbd with http.listen set, or set EBB_URL before ComfyUI starts") from why

    @staticmethod
    def _refusal(status, body):
        try:
            error = json.loads(body)["error"]
            return EbbError(str(error["code"]), str(error["message"]))
        except (ValueError, KeyError, TypeError):
            return EbbError(f"http_{status}", f"what answers at {url()} is no Ebb (HTTP {status})")

    def answer(self):
        """The body, as JSON."""
        try:
            return json.loads(self._open().read())
        except ValueError as why:
            raise EbbError("no_ebb", f"what answers at {url()} is no Ebb: its answer is not JSON") from why
        except (OSError, http.client.HTTPException) as why:
            raise EbbError("no_ebb", f"Ebb at {url()} broke off its answer: {why}") from why
        finally:
            self._connection.close()

    def events(self):
        """The data of server-sent events, as JSON, until [DONE]."""
        try:
            ended = False
            for line in self._open():
                if not line.startswith(b"data:"):
                    continue
                data = line[5:].strip()
                if data == b"[DONE]":
                    ended = True
                    break
                event = json.loads(data)
                if "error" in event:
                    raise EbbError(str(event["error"].get("code")), str(event["error"].get("message")))
                yield event
            if not ended and not self.was_closed:
                raise EbbError("no_ebb", f"Ebb at {url()} broke off its answer")
        except (ValueError, OSError, http.client.HTTPException) as why:
            raise EbbError("no_ebb", f"Ebb at {url()} broke off its answer: {why}") from why
        finally:
            self._connection.close()

    def close(self):
        self.was_closed = True
        sock = self._connection.sock
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def ask(method, path, body=None, wait_s=0.0):
    return Call(method, path, body, wait_s).answer()


def cards():
    return ask("GET", "/v1/cards")["cards"]
