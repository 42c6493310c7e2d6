#!/usr/bin/env python3
"""Sends other projects' media files through the real program, and looks at what viewers get.

    .ci/found.py [--program=FILE] [--only=whole,late,broken,made,hls] FOLDER|FILE ...        needs ffmpeg

whole   A viewer from the start gets the file byte for byte.
late    A late viewer gets a header and the file's bytes from a place on. ffprobe finds the file's tracks in that, its first picture is a
        key frame, and ffmpeg reports nothing that it does not report of the file.
broken  The source breaks and sends the file again. ffmpeg reports nothing new of what viewers get, apart from times.
made    live.ts and live.mp4 have the file's units at the file's times to a tick (sound: to 1 ms in MP4, 11 ms in MPEG-TS), from the start
        and late. live.mp4 has one moov. Sound is at most 0.7 s further from its pictures than in the file. A viewer who comes before the
        source and a late viewer get the same status. In its own container the stream goes out as it is.
hls     Each segment decodes by itself, but within a group that is longer than a segment may be. The segments have all pictures from the
        first key frame on, and none is shorter than 0.2 s but the last. Each duration is true, and within the target.

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
# What differs in live.ts, live.mp4 and HLS, and why. STATUS: they are not there.
STATUS, UNITS, TIMES, HEADERS, SOUND, SEGMENTS = "status", "units", "times", "headers", "sound", "segments"
MADE = {
    ("av1.mkv", STATUS): "it has no CodecPrivate, as no AV1 may be without",
    ("dvb-multiplex.ts", STATUS): "every copy of its map is damaged",
    ("no-video-packets.ts", SEGMENTS): "its map names video, for which segments wait",
    ("packets-204.ts", STATUS): "it has no tables",
    ("mpegts-0162-iibbibb_editlist_videoonly.mp4.ts", SEGMENTS): "three pictures in an open group: ffmpeg shows none before the next group",
    ("partly.mp4", COMPLAINTS): "its only key picture is in no fragment",
    ("mpegts105-test-059.2.ts", UNITS): "packets are missing in its first key pictures",
    ("mpegts105-test-059.2.ts", COMPLAINTS): "packets are missing in its first key pictures",
    ("mpegts105-test-059.2.ts", HEADERS): "packets are missing in its first key pictures, and sound waits four seconds",
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
    # A cover in the comments is not for late viewers.
    return sorted({(row.get("codec_type"), row.get("codec_name")) for row in rows} - {("data", None), ("video", "png")}, key=str)


def begins_with_key(data):
    found = run(data, "ffprobe", "-v", "quiet", "-select_streams", "v:0", "-show_entries", "packet=flags", "-of", "csv=p=0", "-read_intervals", "%+#1", "-")
    return not found.stdout or found.stdout.startswith(b"K")


def plain_lines(said):
    """What ffmpeg says, without numbers; but for what it says of the times that it makes itself."""
    said = re.sub(r"0x[0-9a-f]+|\d+", "N", said.decode(errors="replace"))
    # A decoder that begins with an open group lacks pictures that a later one tells it to forget.
    ignored = ("repeated", "non monotonically increasing dts to muxer", "mmco: unref short failure")
    lines = [line for line in said.splitlines() if not any(part in line for part in ignored)]
    return {re.sub(r"^\[[^]]*\] *", "", line).strip() for line in lines}


@functools.cache
def complaints(data):
    return plain_lines(run(data, "ffmpeg", "-v", "error", "-i", "-", "-map", "0:v?", "-map", "0:a?", "-f", "null", "-").stderr)


def begin_in(data, body):
    """Where the longest end of the file begins with which the body ends."""
    low, high = 0, min(len(body), len(data))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if body.endswith(data[len(data) - middle:]) else (low, middle - 1)
    return len(data) - low


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
        begin = begin_in(data, body)
        if begin == len(data) or begin > place:
            faults.append(f"late at {place}: it is not a part of the file ({len(body)} bytes)")
        if name in NO_POINTS:
            continue
        got = tracks(body)
        for kind, is_well, says in [
            (TRACKS, got == had_tracks, f"tracks {got}, not {had_tracks}"),
            # No key frame may have come before who is early.
            (PICTURE, begins_with_key(body) or begin == 0 or is_unaligned(data), "the first picture is no key frame"),
            (COMPLAINTS, not (new := complaints(body) - had_complaints) or is_unaligned(data), f"ffmpeg says {sorted(new)[:3]}"),
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
    # From a whole packet on ffmpeg takes a picture for one that it does not see of the file.
    new = complaints(body) - complaints(data) - complaints(b"".join(transport(data)) or data)
    return [f"after a break ffmpeg says {sorted(new)[:3]}"] if new and not is_unaligned(data) else []


Packet = collections.namedtuple("Packet", "time decode pos content is_key")
# What each container can carry.
CARRIED = {"h264", "hevc", "aac", "mp1", "mp2", "mp3", "ac3", "eac3", "opus"}
ONLY_IN_MP4 = {"av1", "vp8", "vp9"}


def container(data):
    """One that can be remuxed, or None."""
    if transport(data):
        return "mpegts"
    if data[4:8] in (b"ftyp", b"styp", b"moov"):
        # Without fragments nothing comes behind the header.
        return "mp4" if b"moof" in data else None
    return {b"FLV": "flv", b"\x1aE\xdf": "matroska"}.get(data[:3])


def transport(data):
    """The packets of MPEG-TS that begins anywhere within one of 188, 192 or 204 bytes."""
    for length in (188, 192, 204):
        for at in range(length):
            if set(data[at:at + 8 * length:length]) == {0x47}:
                return [data[at:at + 188] for at in range(at, len(data) - 187, length)]
    return []


def is_encrypted(data):
    """Nothing of it can be carried, but by its own container."""
    if container(data) == "mpegts":
        packets_ = [packet[3] for packet in transport(data) if packet[3] & 0x10]
        return sum(byte & 0xC0 != 0 for byte in packets_) > len(packets_) / 2
    # ContentEncryption, or its signal instead of a codec's name, in the header.
    sign = {"matroska": rb"(?s)\x6d\x80.{1,9}\x62\x40.{,99}\x50\x35", "mp4": rb"enc[va]"}.get(container(data))
    return bool(sign and re.search(sign, data[:4096]))


@functools.cache
def is_unaligned(data):
    """Its PES packets begin within pictures (Apple's segmenter): so does whatever does not begin with the file, and the rest of a picture
    is in front of what decodes."""
    begin, whole = 0, 0
    for packet in transport(data):
        pes = packet[4 + (packet[3] & 0x20 and packet[4] + 1):]
        if packet[1] & 0x40 and re.match(rb"\x00\x00\x01[\xe0-\xef]", pes):
            begin, whole = begin + 1, whole + (re.match(rb"\x00\x00+\x01", pes[9 + pes[8]:]) is not None)
    return whole < begin / 2


@functools.cache
def packets(data):
    """The packets of each track that has some: its kind, its codec, how long a tick is, and they. Of MP4 with several headers ffprobe
    reads each part by itself."""
    begins = [at for at, kind in boxes(data) if kind == b"ftyp"] if container(data) == "mp4" else []
    tracks = {}
    for begin, end in zip(begins or [0], begins[1:] + [len(data)]):
        for place, (kind, codec, tick, packets_) in enumerate(packets_of_part(data[begin:end])):
            tracks.setdefault((place, kind, codec), (kind, codec, tick, []))[3].extend(packets_)
    return list(tracks.values())


def packets_of_part(data):
    found = run(data, "ffprobe", "-v", "quiet", "-show_data_hash", "adler32", "-show_entries",
                "stream=index,codec_name,codec_type,time_base:packet=stream_index,pts,dts,pos,data_hash,flags", "-of", "json", "-")
    found = json.loads(found.stdout or b"{}")
    tracks = {}
    for row in found.get("streams", []):
        if row.get("codec_type") in ("video", "audio") and "codec_name" in row:
            numerator, denominator = map(int, row["time_base"].split("/"))
            tracks[row["index"]] = (row["codec_type"], row["codec_name"], numerator / denominator, [])
    for row in found.get("packets", []):
        if row["stream_index"] in tracks and "pts" in row:
            tick = tracks[row["stream_index"]][2]
            own = tracks[row["stream_index"]][3]
            # Matroska does not say when its first pictures are to be decoded.
            decode = row["dts"] * tick if "dts" in row else own[-1].decode if own else row["pts"] * tick
            own.append(Packet(row["pts"] * tick, decode, int(row.get("pos", -1)), row["data_hash"], "K" in row["flags"]))
    return [track for track in tracks.values() if track[3]]


def boxes(data):
    """Where the boxes of MP4 begin, and what they are."""
    at = 0
    while at + 8 <= len(data):
        yield at, data[at + 4:at + 8]
        at += max(int.from_bytes(data[at:at + 4], "big"), 8)


def moovs(data):
    """How many headers there are."""
    return sum(kind == b"moov" for _, kind in boxes(data))


def distance(tracks):
    """By how many seconds sound comes behind the pictures of its time among the bytes, or they behind it, at most."""
    firsts = [next((track[3] for track in tracks if track[0] == kind), None) for kind in ("video", "audio")]
    if None in firsts:
        return 0
    begin, end = max(track[0].decode for track in firsts), min(track[-1].decode for track in firsts)
    both = sorted((packet.pos, kind, packet.decode) for kind, track in enumerate(firsts) for packet in track if packet.pos >= 0)
    newest, furthest = [begin, begin], 0
    for _, kind, decode in both:
        newest[kind] = max(newest[kind], decode)
        if begin <= decode <= end:
            furthest = max(furthest, newest[1 - kind] - decode)
    return furthest


def clocks(track):
    """The packets of a track, each row of them of one clock: it runs neither back by a second nor on by ten."""
    rows = [[]]
    for packet in track:
        if rows[-1] and not -1 <= packet.decode - rows[-1][-1].decode <= 10:
            rows.append([])
        rows[-1].append(packet)
    return rows


def same_container(had, got):
    """What a late viewer has of a track against what an early one has: by how much each packet is moved, how many are missing between
    them, and how many are others. Both have the same end."""
    at, place, shifts, missing, unknown = len(had), len(got), [], 0, 0
    while place and at:
        place -= 1
        far = next((far for far in range(1, min(at, 50) + 1) if had[at - far].content == got[place].content), None)
        if far is None:
            unknown += 1
            continue
        missing, at = missing + far - 1, at - far
        shifts.append(got[place].time - had[at].time)
    return shifts, missing, unknown + place


def other_container(had, got, tolerance, moved):
    """What was made of a track against the track of the file: by how much each of its clocks is moved, how many packets are missing,
    and how many have other times. In front of the first picture with which decoding can begin nothing is made. Packets as long as each
    other fit in several ways: of these the one that is nearest to how the track before was moved."""
    got_times, at, shifts, missing, matched, rows = sorted(packet.time for packet in got), 0, [], 0, 0, clocks(had)
    for place, row in enumerate(rows):
        had_times = sorted(packet.time for packet in row)

        def matches(shift):
            place, found = at, []
            for time_ in had_times:
                while place < len(got_times) and got_times[place] < time_ + shift - tolerance:
                    place += 1
                if place < len(got_times) and got_times[place] <= time_ + shift + tolerance:
                    found.append(place)
                    place += 1
            return found

        begins = {begin - time_ for begin in got_times[at:at + 3] for time_ in had_times[:100]}
        if place == len(rows) - 1:
            begins.add(got_times[-1] - had_times[-1])
        counts = {shift: len(matches(shift)) for shift in begins}
        spared = max(2, len(row) // 5 if len(rows) > 1 else 0) if moved else 0
        good = [shift for shift, count in counts.items() if count >= max(counts.values()) - spared]
        near = moved[place] if place < len(moved) else got_times[-1] - had_times[-1]
        shift = min(good, key=lambda shift: abs(shift - near), default=0)
        found = matches(shift)
        expected = sum(time_ + shift >= got_times[0] - tolerance for time_ in had_times) if at == 0 else len(had_times)
        shifts.append(shift)
        missing, matched, at = missing + expected - len(found), matched + len(found), found[-1] + 1 if found else at
    return shifts, missing, len(got_times) - matched


def compare(what, had, got, is_late):
    """Tracks of what was made, or what a late viewer has of it, against those that it should have."""
    moved = []
    for kind, codec, tick, track in sorted(got, key=lambda track: track[0] != "video"):
        best = None
        for _, _, had_tick, had_track in [other for other in had if other[1] == codec] or [other for other in had if other[0] == kind]:
            # Frames of sound follow each other without gaps that are shorter than a millisecond; in MPEG-TS those of a PES packet, without any.
            spared = (0.011 if "live.ts" in what else 0.001) if kind == "audio" else 0
            tolerance, unknown = max(tick, had_tick, spared) + 0.0001, 0
            if is_late:
                shifts, missing, unknown = same_container(had_track, track)
                shifts, wrong = ([shift := statistics.median(shifts)], sum(abs(own - shift) > tolerance for own in shifts)) if shifts else ([], 0)
            else:
                shifts, missing, wrong = other_container(had_track, track, tolerance, moved[0][0] if moved else [])
            # Where one clock follows another, the last picture may be torn, and sound of both overlap.
            changes = len(clocks(had_track)) - 1
            allowed = 1 + changes * (2 if kind == "video" else int(len(had_track) / (had_track[-1].time - had_track[0].time or 1) / 3))
            found = missing + unknown + wrong, missing, unknown, wrong, shifts, tolerance, len(had_track), allowed
            best = min(best or found, found)
        if not best:
            yield UNITS, f"{what}: {codec} is not in the file"
            continue
        _, missing, unknown, wrong, shifts, tolerance, count, allowed = best
        moved.append((shifts, tolerance))
        if missing > allowed or unknown > allowed:
            yield UNITS, f"{what}: of {count} units of {codec} {missing} are missing, {unknown} are others"
        if len(clocks(track)) > 1:
            yield TIMES, f"{what}: {codec} has {len(clocks(track))} clocks"
        if wrong > allowed:
            yield TIMES, f"{what}: {wrong} of {len(track)} units of {codec} have other times"
    for shifts in zip(*(shifts for shifts, _ in moved)):
        if max(shifts) - min(shifts) > 2 * max(tolerance for _, tolerance in moved):
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
    codecs = {track[1] for track in had} if container(data) and not is_encrypted(data) else set()
    if "hls" in kinds:
        yield from playlist(address, (name, session), list_, data, codecs)
    if "made" not in kinds:
        return
    for what, early, late, carried in [("live.ts", early_ts, late_ts, CARRIED), ("live.mp4", early_mp4, late_mp4, CARRIED | ONLY_IN_MP4)]:
        early.all(), late.all()
        # In its own container it goes out as it is, to whoever comes late as to viewers of the stream itself.
        if is_same := container(data) == {"live.ts": "mpegts", "live.mp4": "mp4"}[what]:
            if begin_in(data, early.body) > 65536 or late.status() != 200:
                yield UNITS, f"{what} is the file from {begin_in(data, early.body)} on, and late it is answered by {late.status()}"
            continue
        answers = [f"{viewer.status()}" + (" and nothing" if viewer.status() == 200 and not viewer.body else "") for viewer in (early, late)]
        if answers != [expected := "200" if codecs & carried else "406"] * 2:
            yield STATUS, f"{what} is answered by {' and late by '.join(answers)}, not by {expected}: {early.body[:200] if early.status() != 200 else b''}"
        if early.status() != 200 or not early.body:
            continue
        got = packets(early.body)
        yield from compare(f"{what} from the start", had, got, False)
        # What is late in the file is waited for as soon as that is known; in MPEG-TS a picture ends where the next one begins.
        pictures = next((track[3] for track in had if track[0] == "video" and container(data) == "mpegts"), [])
        slowest = max((behind.decode - picture.decode for picture, behind in zip(pictures, pictures[1:])), default=0)
        if (apart := distance(got)) > (apart_max := 0.7 + distance(had) + min(slowest, 1)):
            yield SOUND, f"{what}: sound is up to {apart:.2f} s from its pictures"
        if new := complaints(early.body) - complaints(data):
            yield COMPLAINTS, f"{what}: ffmpeg says {sorted(new)[:3]}"
        if late.status() == 200 and late.body:
            got_late = packets(late.body)
            yield from compare(f"{what} late", got, got_late, True)
            if {track[1] for track in got} != {track[1] for track in got_late}:
                yield TRACKS, f"{what} late has tracks {[track[1] for track in got_late]}, not {[track[1] for track in got]}"
            if (apart := distance(got_late)) > apart_max:
                yield SOUND, f"{what} late: sound is up to {apart:.2f} s from its pictures"
            if not begins_with_key(late.body):
                yield PICTURE, f"{what} late: the first picture is no key frame"
        for body in (early.body, late.body):
            if what == "live.mp4" and moovs(body) > 1:
                yield HEADERS, f"{what} has {moovs(body)} headers"


@functools.cache
def decoded(data):
    """Which of pictures and sound decode, and what ffmpeg says about that."""
    done = run(data, "ffmpeg", "-v", "error", "-i", "-", "-map", "0:v:0?", "-map", "0:a:0?", "-f", "framecrc", "-")
    rows = done.stdout.decode().splitlines()
    types = {row[12]: row.split()[-1] for row in rows if row.startswith("#media_type ")}
    return {types.get(row[0]) for row in rows if row[0] != "#"}, plain_lines(done.stderr)


def begin_of_pictures(data):
    """The decode time of the first picture. In MPEG-TS of the second: the first may have its parameter sets in a PES packet without times."""
    found = run(data, "ffprobe", "-v", "quiet", "-select_streams", "v:0", "-show_entries", "packet=dts_time", "-of", "csv=p=0", "-read_intervals", "%+#2", "-")
    times = re.findall(rb"^-?[0-9.]+", found.stdout, re.M)
    return float(times[container(data) == "mpegts"]) if len(times) == 2 else None


def playlist(address, names, viewer, data, codecs):
    (name, session), is_made = names, container(data) in ("matroska", "flv")
    carried = CARRIED | ONLY_IN_MP4
    if name in NO_POINTS or data.startswith(b"OggS") or is_made and not codecs & carried or container(data) == "mpegts" and is_encrypted(data):
        # 404: it has ended before it was known.
        if viewer.status() not in (404, 406):
            yield STATUS, f"HLS is answered by {viewer.status()}"
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
    map_, segments, breaks = b"", [], set()
    for line in lines:
        if line == "#EXT-X-DISCONTINUITY":
            breaks.add(len(segments))
        elif line.startswith("#EXT-X-MAP"):
            map_ = fetch(address, f'{session}/{re.search("URI=.([^, ]*)[^, ]", line)[1]}')[1]
        elif line and not line.startswith("#"):
            status, body = fetch(address, f"{session}/{line}")
            segments.append(map_ + body if status == 200 else b"")
    if missing := segments.count(b""):
        yield SEGMENTS, f"{missing} of {len(segments)} segments are listed and not there"
    # Sound, or what has no pictures that are carried, where the file has no others.
    track = min((track for track in packets(data) if not is_made or track[1] in carried), key=lambda track: track[0] != "video", default=None)
    if not track:
        return
    kind, _, _, track = track
    keys = [packet.time for packet in track if packet.is_key]
    target = next(int(line.split(":")[1]) for line in lines if line.startswith("#EXT-X-TARGETDURATION"))
    is_long = any(behind - key > target + 0.5 for key, behind in zip(keys, keys[1:] + [track[-1].time]))
    for duration in durations:
        if int(duration + 0.5) > target:
            yield SEGMENTS, f"a segment of {duration} s is longer than the target of {target} s"
    (old_kinds, old_said), said, last = decoded(data), collections.Counter(), None
    for place, (body, duration) in enumerate(zip(segments, durations)):
        # ffmpeg does not tell what so little is; what is encrypted does not decode; segments end within a group that is longer than them.
        if not body or duration < 0.2 or is_encrypted(data) or is_long and not begins_with_key(body):
            last = None
            continue
        kinds, new_said = decoded(body)
        said["has nothing that decodes"] += kind in old_kinds - kinds
        begin = begin_of_pictures(body) if kind == "video" else None
        if begin and last and place not in breaks and abs(begin - last - durations[place - 1]) > 0.3:
            yield SEGMENTS, f"a segment of {durations[place - 1]} s lasts {begin - last:.3f} s"
        last = begin
        said.update("makes ffmpeg say: " + line for line in new_said - old_said if not is_unaligned(data))
    for says, count in said.items():
        if count:
            yield SEGMENTS, f"each of {count} of {len(segments)} segments {says}"
    if not any(line.startswith("#EXT-X-DISCONTINUITY") and "SEQUENCE" not in line for line in lines) and "#EXT-X-ENDLIST" in lines:
        # From the first picture on with which decoding can begin.
        lasts = track[-1].time - keys[0] if keys else 0
        if lasts - sum(durations) > 0.5:
            yield SEGMENTS, f"the segments have {sum(durations):.2f} s of {lasts:.2f}"


def main():
    options = dict(argument[2:].split("=", 1) for argument in sys.argv[1:] if argument.startswith("--"))
    kinds = options.get("only", "whole,late,broken,made,hls").split(",")
    program, files = options.get("program", "target/debug/tollgate"), []
    for path in [argument for argument in sys.argv[1:] if not argument.startswith("--")]:
        names = [path] if os.path.isfile(path) else [os.path.join(path, name) for name in os.listdir(path)]
        files += sorted(name for name in names if not name.endswith(".txt"))
    if not files:
        sys.exit("no files: name folders or files of media")
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
