#!/usr/bin/env python3
"""Media as they are found, through the real program: every file of a folder from its start byte for byte, five late viewers of each,
and a break after which the same file comes again.

    .ci/found.py FOLDER [PROGRAM] [NAME ...]        needs ffmpeg

A late viewer gets a header and the file's bytes from a place on, or just those; ffprobe finds the same tracks in that as in the file,
its first picture is a key frame, and ffmpeg says nothing that it does not say of the file. Nor does it say more of what viewers get
after a break, but of times where they are the sources' own. Where that is not so, the lists below say
why; a reason that does not hold any more is a fault too.
"""
import concurrent.futures, json, os, re, socket, subprocess, sys, threading, time, urllib.request

# Nothing can be joined: who comes late begins where the server can do no better.
NO_POINTS = {
    "absolute.mp4": "positions count from the file's first byte",
    "partly.mp4": "positions count from the file's first byte",
    "plain.mp4": "not fragmented",
    "plain-mdat-first.mp4": "not fragmented",
    "dvb-multiplex.ts": "every copy of its map is damaged",
    "packets-204.ts": "it has no tables",
    "vorbis-holes.ogg": "bytes between header pages",
}
# What differs for a late viewer, and why.
TRACKS, PICTURE, COMPLAINTS = "tracks", "picture", "complaints"
LATE = {
    ("chain.ogg", TRACKS): "a chain: each viewer gets the links from where it begins",
    ("trailing.mp3", TRACKS): "150 kB of something else behind the last frame: who comes then finds no sound",
    ("trailing.mp3", COMPLAINTS): "150 kB of something else behind the last frame: who comes then finds no sound",
    ("id3.adts", TRACKS): "a picture in a tag in front is not for late viewers",
    ("encrypted.webm", PICTURE): "ffmpeg looks into the pictures for key frames, and finds none in the file",
}
# What viewers get of the same file after a break.
AFTER_A_BREAK = {
    "clear-then-encrypted.mp4": "its last header describes other tracks than its first",
}
# And of what does a player say that it is damaged.
DAMAGED_BY_A_BREAK = {
    "apple-unaligned.ts": "its PES packets end within pictures",
    "captions.ts": "its PES packets end within pictures",
}


# Files are looked at three at a time; their first viewers come one by one, so that each can be seen to wait.
opening = threading.Lock()


def run(data, *command):
    """The program reads as a viewer does: it cannot seek."""
    return subprocess.run(command, input=data, capture_output=True, timeout=120)


def start(program, *options):
    server = subprocess.Popen([program, "--listen=127.0.0.1:0", "--log=info", "--rtp=off", "--token-server=127.0.0.1/32",
                               *options], stderr=subprocess.PIPE, text=True)
    line = next(line for line in server.stderr if "listening http" in line)
    threading.Thread(target=server.stderr.read, daemon=True).start()
    return server, ("127.0.0.1", int(line.rsplit(":", 1)[1]))


class Viewer(threading.Thread):
    """Reads its response to the end."""

    def __init__(self, address, session):
        super().__init__(daemon=True)
        self.socket, self.body = socket.create_connection(address), b""
        self.socket.sendall(f"GET /stream/{session} HTTP/1.0\r\nHost: x\r\n\r\n".encode())
        self.has_begun = threading.Event()
        self.start()

    def run(self):
        whole = bytearray()
        try:
            while part := self.socket.recv(1 << 20):
                whole += part
                self.has_begun.set()
        except ConnectionError:
            pass
        self.body = bytes(whole.partition(b"\r\n\r\n")[2])
        self.has_begun.set()

    def all(self):
        self.join(60)
        return self.body


class Source:
    def __init__(self, address, session):
        self.socket = socket.create_connection(address)
        self.socket.sendall(f"PUT /stream/{session} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode())

    def send(self, data):
        if data:
            self.socket.sendall(b"%x\r\n%b\r\n" % (len(data), data))

    def finish(self):
        self.socket.sendall(b"0\r\n\r\n")
        self.socket.recv(1000)
        self.socket.close()


def call(address, method, path):
    request = urllib.request.Request(f"http://{address[0]}:{address[1]}/api/{path}", method=method)
    return json.load(urllib.request.urlopen(request))


def stream(address, session):
    rows = call(address, "GET", "list-streams")
    return next((row for row in rows if row["sessionid"] == session), None)


def wait(true):
    for _ in range(2000):
        if true():
            return True
        time.sleep(0.005)
    return False


def tracks(data):
    found = run(data, "ffprobe", "-v", "quiet", "-show_entries", "stream=codec_name,codec_type", "-of", "json", "-")
    rows = json.loads(found.stdout or b"{}").get("streams", [])
    return sorted({(row.get("codec_type"), row.get("codec_name")) for row in rows} - {("data", None)}, key=str)


def begins_with_key(data):
    found = run(data, "ffprobe", "-v", "quiet", "-select_streams", "v:0", "-show_entries", "packet=flags", "-of", "csv=p=0", "-read_intervals", "%+#1", "-")
    return not found.stdout or found.stdout.startswith(b"K")


def complaints(data):
    said = run(data, "ffmpeg", "-v", "error", "-i", "-", "-map", "0:v?", "-map", "0:a?", "-f", "null", "-").stderr.decode(errors="replace")
    said = re.sub(r"0x[0-9a-f]+|\d+", "N", said)
    return {re.sub(r"^\[[^]]*\] *", "", line).strip() for line in said.splitlines() if "repeated" not in line}


def late(address, name, data):
    session, faults = "late-" + name, []
    source, viewers, sent = Source(address, session), [], 0
    for part in range(1, 6):
        place = len(data) * part // 6
        source.send(data[sent:place])
        sent = place
        if not wait(lambda: (stream(address, session) or {}).get("bytes_received") == place):
            return ["the server does not take it"]
        viewers.append((place, Viewer(address, session)))
        wait(lambda: stream(address, session)["viewers"] == part)
    source.send(data[sent:])
    source.finish()
    had_tracks, had_complaints = tracks(data), complaints(data)
    seen, explained = set(), set()
    for place, viewer in viewers:
        body = viewer.all()
        if body in seen:
            continue
        seen.add(body)
        # The longest end of the file with which the body ends.
        low, high = 0, min(len(body), len(data))
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if body.endswith(data[len(data) - middle:]) else (low, middle - 1)
        begin = len(data) - low
        if low == 0 or begin > place:
            faults.append(f"late at {place}: it is not a part of the file ({len(body)} bytes)")
        if name in NO_POINTS:
            continue
        got = tracks(body)
        for kind, is_well, says in [
            (TRACKS, got == had_tracks, f"tracks {got}, not {had_tracks}"),
            (PICTURE, begins_with_key(body), "the first picture is no key frame"),
            (COMPLAINTS, not (new := complaints(body) - had_complaints), f"ffmpeg says {sorted(new)[:3]}"),
        ]:
            if not is_well and (name, kind) in LATE:
                explained.add((name, kind))
            elif not is_well:
                faults.append(f"late at {place} of {len(data)}, from {begin} on: {says}")
    for name, kind in {key for key in LATE if key[0] == name} - explained:
        faults.append(f"late: nothing is wrong with the {kind} any more")
    return faults


def waiting(address):
    """How many viewers wait for a source."""
    figures = urllib.request.urlopen(f"http://{address[0]}:{address[1]}/metrics").read().decode()
    return int(re.search(r"^tollgate_waiting_viewers (\d+)", figures, re.M)[1])


def opened(address, session):
    """A viewer that waits, and then its source: it is there from the first byte on."""
    with opening:
        viewer = Viewer(address, session)
        wait(lambda: waiting(address) == 1)
        source = Source(address, session)
        wait(lambda: waiting(address) == 0)
    return viewer, source


def whole(address, name, data):
    viewer, source = opened(address, "whole-" + name)
    source.send(data)
    source.finish()
    body = viewer.all()
    return [] if body == data else [f"from the start: {len(body)} bytes that are not the file's {len(data)}"]


def broken(address, name, data):
    session = "broken-" + name
    viewer, source = opened(address, session)
    cut = len(data) * 2 // 3
    source.send(data[:cut])
    wait(lambda: (stream(address, session) or {}).get("bytes_received") == cut)
    source.socket.close()
    is_over = lambda: stream(address, session) is None or stream(address, session)["held"]
    wait(is_over)
    had = stream(address, session)
    expected = name not in NO_POINTS and name not in AFTER_A_BREAK
    if not had or not had["held"]:
        return ["it is not held"] if expected else []
    source = Source(address, session)
    source.send(data)
    source.finish()
    body = viewer.all()
    goes_on = len(body) > cut * 0.7 + len(data) * 0.4
    if goes_on != expected:
        return [f"after a break: {len(body)} bytes of {cut} and {len(data)}"]
    # The same file again has the same serial numbers in Ogg, which no chain has: players take its headers for data.
    if not expected or data.startswith(b"OggS"):
        return []
    new = {line for line in complaints(body) - complaints(data) if "non monotonically increasing dts" not in line}
    if name in DAMAGED_BY_A_BREAK:
        return [] if new else ["after a break: nothing is damaged any more"]
    return [f"after a break ffmpeg says {sorted(new)[:3]}"] if new else []


def main():
    folder = sys.argv[1]
    program = sys.argv[2] if len(sys.argv) > 2 else "target/debug/tollgate"
    names = sys.argv[3:] or sorted(name for name in os.listdir(folder) if not name.endswith(".txt"))
    plain, address = start(program, "--wait=30")
    holding, held_address = start(program, "--wait=30", "--hold=30")
    faults = 0
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        def check(name):
            data = open(os.path.join(folder, name), "rb").read()
            for to, kind in [(address, "whole"), (address, "late"), (held_address, "broken")]:
                call(to, "POST", f"add-token?type=http&sessionid={kind}-{name}")
            return whole(address, name, data) + late(address, name, data) + broken(held_address, name, data)
        for name, found in zip(names, pool.map(check, names)):
            faults += len(found)
            for fault in found:
                print(f"{name}: {fault}", flush=True)
    for server in (plain, holding):
        server.terminate()
    print(f"{len(names)} files, {faults} faults")
    sys.exit(faults > 0)


main()
