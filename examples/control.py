#!/usr/bin/env python3
"""A control server to start from: hands out watch keys for an hour, prints events, kicks viewers.

    CONTROL_SECRET=… examples/control.py [RELAY [PORT]]      # http://127.0.0.1:8000 and 8080

    POST   /keys?session=SESSION     201 {"key", "path", "seconds"}: a viewer opens RELAY/path
    DELETE /viewers?id=ID            204: disconnects the viewer, and keeps it out for a minute

Run it on a host of the relay's --token-server. It is for your own programs on this host: it listens
on loopback, takes 32 calls at a time, and callers name its secret (Authorization: Bearer …). For
callers on other hosts, put a proxy with TLS in front. It stores nothing: the relay has the keys.
With --token-file, they survive a restart of both.
"""
import hmac, http.client, json, os, secrets, socket, sys, threading, time, urllib.error
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, quote, urlencode, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

RELAY = (sys.argv[1:2] or ["http://127.0.0.1:8000"])[0].rstrip("/")
SECRET = os.environ.get("CONTROL_SECRET") or secrets.token_urlsafe(32)
open_url = build_opener(ProxyHandler({})).open  # Keys go to the relay, never to $http_proxy.


def ask(method, call, **query):
    """Calls the relay's API. It reads '+' as a plus, so a space is %20."""
    url = f"{RELAY}/api/{call}?{urlencode(query, quote_via=quote, safe='')}"
    return open_url(Request(url, method=method), timeout=10).read(1 << 20)


def give(session):
    key = secrets.token_urlsafe(16)
    terms = {"type": "http", "for": session, "direction": "out", "ends": 3600}
    ask("POST", "add-token", sessionid=key, **terms)
    return 201, {"key": key, "path": f"/stream/{key}", "seconds": 3600}


def kick(viewer):
    ask("DELETE", "kick-viewer", id=viewer, block=60)
    return 204, b""


CALLS = {("POST", "/keys", "session"): give, ("DELETE", "/viewers", "id"): kick}


def happened(event, data):
    """Put your own reaction here. Token events contain keys, which are secrets: not printed."""
    if not event.startswith("token"):
        print(event, json.dumps(data), flush=True)


def follow(events, last):
    """Reports each complete event. last[0] is the id of the newest one, to continue after it."""
    unit = {}
    while line := events.readline(1 << 20).decode():
        name, _, value = line.rstrip("\n").partition(":")
        if name:
            unit[name] = value.removeprefix(" ")
        elif line == "\n":
            if "data" in unit:
                last[0] = unit.get("id", last[0])
                happened(unit.get("event", "message"), json.loads(unit["data"]))
            unit = {}


def follow_for_ever():
    last = [""]
    while True:
        try:
            fields = {"Last-Event-ID": last[0]} if last[0] else {}
            # The relay sends a comment every 15 s: 40 s of silence mean that it is lost.
            with open_url(Request(RELAY + "/api/events", headers=fields), timeout=40) as events:
                follow(events, last)
            print("events: ended by the relay", file=sys.stderr, flush=True)
        except (OSError, ValueError, http.client.HTTPException) as error:
            print("events:", error, file=sys.stderr, flush=True)
        time.sleep(1)


def problem(status, detail):
    return status, {"status": status, "title": http.client.responses[status], "detail": detail}


class Control(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 5  # Ends the call of a silent caller,

    def handle(self):  # and of one that sends a byte at a time.
        end = threading.Timer(20, self.connection.shutdown, [socket.SHUT_RD])
        end.start()
        try:
            super().handle()
        except OSError:
            pass  # The caller has gone.
        finally:
            end.cancel()

    def outcome(self):
        try:
            secret = self.headers.get("Authorization", "").encode()
            if not hmac.compare_digest(secret, f"Bearer {SECRET}".encode()):
                return problem(401, "it takes Authorization: Bearer, and the secret")
            target = urlsplit(self.path)
            query = target.query.encode("ascii").decode()  # Names are UTF-8, escaped.
            [(name, value)] = parse_qsl(query, True, True, errors="strict")
            return CALLS[self.command, target.path, name](value)
        except (KeyError, ValueError):
            calls = [f"{method} {path}?{name}=" for method, path, name in CALLS]
            return problem(400, "there are: " + ", ".join(calls))
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.read(1 << 16)  # The relay says why.
        except (OSError, http.client.HTTPException) as error:
            return problem(502, f"the relay: {error}")

    def do_POST(self):
        self.answer(*self.outcome())

    do_DELETE = do_POST

    def answer(self, status, body):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Connection", "close")
        self.send_header("Cache-Control", "no-store")
        if status != 204:
            kind = "problem+json" if status >= 400 else "json"
            self.send_header("Content-Type", "application/" + kind)
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    places = threading.BoundedSemaphore(32)

    def process_request(self, *caller):
        self.places.acquire()  # With 32 calls open, the next caller waits.
        super().process_request(*caller)

    def process_request_thread(self, *caller):
        try:
            super().process_request_thread(*caller)
        finally:
            self.places.release()


if __name__ == "__main__":
    port = int((sys.argv[2:] or ["8080"])[0])
    try:
        server = Server(("127.0.0.1", port), Control)
    except OSError as error:
        sys.exit(f"cannot listen on port {port}: {error.strerror}; control.py {RELAY} PORT takes another")
    print(f"listening control http://127.0.0.1:{server.server_port}", file=sys.stderr, flush=True)
    if not os.environ.get("CONTROL_SECRET"):
        print("CONTROL_SECRET is", SECRET, file=sys.stderr, flush=True)
    threading.Thread(target=follow_for_ever, daemon=True).start()
    server.serve_forever()
