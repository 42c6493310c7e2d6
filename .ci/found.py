#!/usr/bin/env python3
"""Sends other projects' media files through the real program, and looks at what viewers get.

    .ci/found.py [--program=FILE] [--only=whole,late,broken,made,hls] FOLDER|FILE ...        needs ffmpeg

whole   A viewer from the start gets the file byte for byte.
late    A late viewer gets a header and the file's bytes from a place on. ffprobe finds the file's tracks in that, its first picture is a
        key frame, and ffmpeg reports nothing that it does not report of the file.
broken  The source breaks and sends the file again. ffmpeg reports nothing new of what viewers get, apart from times.
made    live.ts and live.mp4 have the file's units at the file's times to a tick, from the start and late. live.mp4 has one moov. Sound
        is at most 0.7 s from its pictures. A viewer who comes before the source and a late viewer get the same status.
hls     Each segment decodes by itself. The segments have all pictures, and none is shorter than 0.2 s but the last.

The lists below name the exceptions, with reasons. A reason that does not hold any more is a fault, too.
"""
import collections, concurrent.futures, functools, json, os, re, socket, statistics, subprocess, sys, threading, time, urllib.error, urllib.parse, urllib.request

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


# What differs in live.ts, live.mp4 and HLS, and why. STATUS: they are not there.
STATUS, UNITS, TIMES, HEADERS, SOUND, SEGMENTS = "status", "units", "times", "headers", "sound", "segments"
MADE = {
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

    def __init__(self, address, path):
        super().__init__(daemon=True)
        self.socket, self.head, self.body = socket.create_connection(address), b"", b""
        self.socket.sendall(f"GET /stream/{path} HTTP/1.0\r\nHost: x\r\n\r\n".encode())
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
        self.head, _, self.body = bytes(whole).partition(b"\r\n\r\n")
        self.has_begun.set()

    def all(self):
        self.join(60)
        return self.body

    def status(self):
        self.join(60)
        return int(self.head.split()[1]) if self.head else 0


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


def plain_lines(said):
    """What ffmpeg says, without numbers."""
    said = re.sub(r"0x[0-9a-f]+|\d+", "N", said.decode(errors="replace"))
    return {re.sub(r"^\[[^]]*\] *", "", line).strip() for line in said.splitlines() if "repeated" not in line}


@functools.cache
def complaints(data):
    return plain_lines(run(data, "ffmpeg", "-v", "error", "-i", "-", "-map", "0:v?", "-map", "0:a?", "-f", "null", "-").stderr)


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


def opened(address, session, files=("",)):
    """Viewers who wait, and then their source: they are there from the first byte on."""
    with opening:
        viewers = [Viewer(address, session + file) for file in files]
        wait(lambda: waiting(address) == len(files))
        source = Source(address, session)
        wait(lambda: waiting(address) == 0)
    return *viewers, source


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


Packet = collections.namedtuple("Packet", "time decode pos content")
# What each container can carry.
CARRIED = {"h264", "hevc", "aac", "mp1", "mp2", "mp3", "ac3", "eac3", "opus"}
ONLY_IN_MP4 = {"av1", "vp8", "vp9"}


def packets(data):
    """The packets of each track that has some, by codec, its ticks a second in front."""
    found = run(data, "ffprobe", "-v", "quiet", "-show_data_hash", "adler32", "-show_entries",
                "stream=index,codec_name,codec_type,time_base:packet=stream_index,pts,dts,pos,data_hash", "-of", "json", "-")
    found = json.loads(found.stdout or b"{}")
    tracks = {}
    for row in found.get("streams", []):
        if row.get("codec_type") in ("video", "audio") and "codec_name" in row:
            numerator, denominator = map(int, row["time_base"].split("/"))
            tracks[row["index"]] = (row["codec_type"], row["codec_name"], numerator / denominator, [])
    for row in found.get("packets", []):
        if row["stream_index"] in tracks and "pts" in row:
            tick = tracks[row["stream_index"]][2]
            tracks[row["stream_index"]][3].append(Packet(row["pts"] * tick, row.get("dts", row["pts"]) * tick, int(row.get("pos", -1)), row["data_hash"]))
    return [track for track in tracks.values() if track[3]]


def moovs(data):
    """How many headers there are."""
    at, count = 0, 0
    while at + 8 <= len(data):
        size = int.from_bytes(data[at:at + 4], "big")
        count += data[at + 4:at + 8] == b"moov"
        at += max(size, 8)
    return count


def distance(tracks):
    """By how many seconds sound is before or behind the pictures of its time among the bytes, at most."""
    firsts = [next((track[3] for track in tracks if track[0] == kind), None) for kind in ("video", "audio")]
    if None in firsts:
        return 0
    begin, end = max(track[0].decode for track in firsts), min(track[-1].decode for track in firsts)
    both = sorted((packet.pos, kind, packet.decode) for kind, track in enumerate(firsts) for packet in track if packet.pos >= 0)
    newest, furthest = [track[0].decode for track in firsts], 0
    for _, kind, decode in both:
        newest[kind] = max(newest[kind], decode)
        if begin <= decode <= end:
            furthest = max(furthest, abs(newest[0] - newest[1]))
    return furthest


def differences(had, got, by_content):
    """What of the packets of a track is missing in another, or has another time than the rest, by the time of those that are there.
    `by_content` where both are in the same container."""
    (_, _, had_tick, had), (_, _, got_tick, got) = had, got
    if by_content:
        places = collections.defaultdict(list)
        for place, packet in enumerate(had):
            places[packet.content].append(place)
        at, shifts, unknown = None, [], 0
        for packet in got:
            behind = [place for place in places[packet.content] if at is None or place > at]
            if not behind:
                unknown += 1
                continue
            at = behind[0]
            shifts.append(packet.time - had[at].time)
        missing = (len(had) - places[got[0].content][-1] if places[got[0].content] else len(got)) - len(got)
        shift = statistics.median(shifts) if shifts else 0
        wrong = sum(abs(own - shift) > 1.01 * max(had_tick, got_tick) for own in shifts)
        return shift, max(missing, 0), unknown, wrong
    had_times, got_times = sorted(packet.time for packet in had), sorted(packet.time for packet in got)
    tolerance = 1.01 * max(had_tick, got_tick)

    def matches(shift):
        at, found = 0, 0
        for time_ in got_times:
            while at < len(had_times) and had_times[at] + shift < time_ - tolerance:
                at += 1
            if at < len(had_times) and had_times[at] + shift <= time_ + tolerance:
                found, at = found + 1, at + 1
        return found

    begins = [got_times[0] - time_ for time_ in had_times[:200]] + [got_times[-1] - had_times[-1]]
    shift = max(begins, key=matches)
    found = matches(shift)
    expected = sum(time_ + shift >= got_times[0] - tolerance for time_ in had_times)
    return shift, expected - found, 0, len(got_times) - found


def compare(what, had, got, by_content, tolerance):
    """Tracks of what was made against those that it should have."""
    shifts = []
    for track in got:
        same = [other for other in had if other[1] == track[1]] or [other for other in had if other[0] == track[0]]
        if not same:
            yield UNITS, f"{what}: {track[1]} is not in the file"
            continue
        shift, missing, unknown, wrong = differences(same[0], track, by_content)
        shifts.append(shift)
        if missing > tolerance or unknown > tolerance:
            yield UNITS, f"{what}: of {len(same[0][3])} units of {track[1]} {missing} are missing, {unknown} are others"
        if wrong:
            yield TIMES, f"{what}: {wrong} of {len(track[3])} units of {track[1]} have other times"
    if shifts and max(shifts) - min(shifts) > 1.01 * max(track[2] for track in had + got):
        yield TIMES, f"{what}: sound is {max(shifts) - min(shifts):.3f} s further from its pictures than in the file"


def fetch(address, path):
    try:
        answer = urllib.request.urlopen(f"http://{address[0]}:{address[1]}/stream/{path}", timeout=60)
        return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def made(address, name, data, kinds):
    """What is wrong with live.ts, live.mp4 and HLS: each a kind and a sentence."""
    session = urllib.parse.quote("made-" + name)
    early_ts, early_mp4, list_, source = opened(address, session, ("/live.ts", "/live.mp4", "/index.m3u8"))
    sent, half, received = 0, len(data) * 3 // 5, lambda: (stream(address, "made-" + name) or {}).get("bytes_received")
    # In small pieces as long as nothing is made of it: what is made begins where it is asked for.
    while sent < half:
        is_made = early_ts.has_begun.is_set() or early_mp4.has_begun.is_set() or sent > 65536
        piece = data[sent:half if is_made else min(sent + 1024, half)]
        source.send(piece)
        sent += len(piece)
        wait(lambda: received() == sent)
    late_ts, late_mp4 = [Viewer(address, session + file) for file in ("/live.ts", "/live.mp4")]
    # Their requests are taken before what follows.
    late_ts.has_begun.wait(0.5), late_mp4.has_begun.wait(0.5)
    source.send(data[half:])
    source.finish()
    list_.all()
    had = packets(data)
    codecs, is_read = {track[1] for track in had}, name not in NO_POINTS and not re.match(rb"OggS|ID3|\xff[\xe0-\xff]", data)
    if "hls" in kinds:
        yield from playlist(address, session, list_, data, had)
    if "made" not in kinds:
        return
    for what, early, late, carried in [("live.ts", early_ts, late_ts, CARRIED), ("live.mp4", early_mp4, late_mp4, CARRIED | ONLY_IN_MP4)]:
        early.all(), late.all()
        # A stream in its own container goes out as it is.
        is_same = data[0] == data[188] == 0x47 if what == "live.ts" else data[4:8] == b"ftyp" and b"mvex" in data[:1 << 18]
        answers = [f"{viewer.status()}" + (" and nothing" if viewer.status() == 200 and not viewer.body else "") for viewer in (early, late)]
        if answers != [expected := "200" if is_read and codecs & carried or is_same else "406"] * 2:
            yield STATUS, f"{what} is answered by {' and late by '.join(answers)}, not by {expected}: {early.body[:200] if early.status() != 200 else b''}"
        if early.status() != 200 or not early.body:
            continue
        got = packets(early.body)
        yield from compare(f"{what} from the start", had, got, False, 1)
        if not is_same and (apart := distance(got)) > 0.7:
            yield SOUND, f"{what}: sound is up to {apart:.2f} s from its pictures"
        if new := complaints(early.body) - complaints(data):
            yield COMPLAINTS, f"{what}: ffmpeg says {sorted(new)[:3]}"
        if late.status() == 200 and late.body:
            got_late = packets(late.body)
            yield from compare(f"{what} late", got, got_late, True, 1)
            if {track[1] for track in got} != {track[1] for track in got_late}:
                yield TRACKS, f"{what} late has tracks {[track[1] for track in got_late]}, not {[track[1] for track in got]}"
            if not is_same and (apart := distance(got_late)) > 0.7:
                yield SOUND, f"{what} late: sound is up to {apart:.2f} s from its pictures"
            if not begins_with_key(late.body):
                yield PICTURE, f"{what} late: the first picture is no key frame"
        for body in (early.body, late.body):
            if what == "live.mp4" and moovs(body) > 1:
                yield HEADERS, f"{what} has {moovs(body)} headers"


def playlist(address, session, viewer, data, had):
    is_made, codecs = data.startswith((b"\x1aE\xdf\xa3", b"FLV")), {track[1] for track in had}
    if viewer.status() == 406 and (data.startswith(b"OggS") or is_made and not codecs & (CARRIED | ONLY_IN_MP4)):
        return
    if viewer.status() != 200:
        yield STATUS, f"HLS is answered by {viewer.status()}: {viewer.body[:200]}"
        return
    status, text = fetch(address, session + "/index.m3u8")
    if status != 200:
        yield STATUS, f"HLS is answered by {status} when the stream has ended: {text[:200]}"
        return
    lines = text.decode().splitlines()
    durations = [float(line[8:].split(",")[0]) for line in lines if line.startswith("#EXTINF:")]
    for duration in durations[:-1]:
        if duration < 0.2:
            yield SEGMENTS, f"a segment of {duration} s"
    # All at once: what has ended is not there for long.
    map_, segments = b"", []
    for line in lines:
        if line.startswith("#EXT-X-MAP"):
            map_ = fetch(address, f'{session}/{re.search("URI=.([^, ]*)[^, ]", line)[1]}')[1]
        elif line and not line.startswith("#"):
            status, body = fetch(address, f"{session}/{line}")
            segments.append(map_ + body if status == 200 else b"")
    old, said = complaints(data), collections.Counter()
    for body in segments:
        if not body:
            said["is listed and not there"] += 1
            continue
        done = run(body, "ffmpeg", "-v", "error", "-i", "-", "-map", "0:v:0?", "-map", "0:a:0?", "-f", "framecrc", "-")
        said["has nothing that decodes"] += not any(row.startswith(b"0,") for row in done.stdout.splitlines())
        said.update("makes ffmpeg say: " + line for line in plain_lines(done.stderr) - old)
    for says, count in said.items():
        if count:
            yield SEGMENTS, f"each of {count} of {len(segments)} segments {says}"
    if had and not any(line.startswith("#EXT-X-DISCONTINUITY") and "SEQUENCE" not in line for line in lines) and durations:
        lasts = had[0][3][-1].time - had[0][3][0].time
        if lasts - sum(durations) > 0.5 and "#EXT-X-ENDLIST" in lines:
            yield SEGMENTS, f"the segments have {sum(durations):.2f} s of {lasts:.2f}"


def main():
    options = dict(argument[2:].split("=", 1) for argument in sys.argv[1:] if argument.startswith("--"))
    kinds = options.get("only", "whole,late,broken,made,hls").split(",")
    program, files = options.get("program", "target/debug/tollgate"), []
    for path in [argument for argument in sys.argv[1:] if not argument.startswith("--")]:
        names = [path] if os.path.isfile(path) else [os.path.join(path, name) for name in os.listdir(path)]
        files += sorted(name for name in names if not name.endswith(".txt"))
    plain, address = start(program, "--wait=30")
    holding, held_address = start(program, "--wait=30", "--hold=30")
    making, made_address = start(program, "--wait=30", "--buffer=16M", "--buffers=1G", "--hls-segment=1")
    faults = 0

    def check(path):
        name, data = os.path.basename(path), open(path, "rb").read()
        for to, kind in [(address, "whole"), (address, "late"), (held_address, "broken"), (made_address, "made")]:
            call(to, "POST", f"add-token?type=http&sessionid={urllib.parse.quote(kind + '-' + name)}")
        found = whole(address, name, data) if "whole" in kinds else []
        found += late(address, name, data) if "late" in kinds else []
        found += broken(held_address, name, data) if "broken" in kinds else []
        if {"made", "hls"} & set(kinds):
            explained = set()
            for kind, says in made(made_address, name, data, kinds):
                if (name, kind) in MADE:
                    explained.add(kind)
                else:
                    found.append(f"{kind}: {says}")
            if {"made", "hls"} <= set(kinds):
                found += [f"made: nothing is wrong with the {kind} any more" for of, kind in MADE if of == name and kind not in explained]
        return found

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for path, found in zip(files, pool.map(check, files)):
            faults += len(found)
            for fault in found:
                print(f"{os.path.basename(path)}: {fault}", flush=True)
    for server in (plain, holding, making):
        server.terminate()
    print(f"{len(files)} files, {faults} faults")
    sys.exit(faults > 0)


main()
