#!/usr/bin/env python3
"""How far behind live a viewer is, by EXT-X-PROGRAM-DATE-TIME: prints the table of docs/hls-details.md.

    benches/hls_delay.py [SECONDS] [PLAYERS]        needs ffmpeg, and a build (cargo build --release)

A player begins three target durations (of parts: PART-HOLD-BACK) behind the end of the list that it got first, as RFC 8216 asks, and plays on
in time; what comes later than it is due holds it up, and from then on it is so much further behind. Who takes the stream itself begins with
the newest key frame. All players play at the same time; the date of what is played is that at which its bytes came to the server.
"""
import datetime, http.client, os, re, statistics, subprocess, sys, tempfile, threading, time

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 14
PLAYERS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
PROGRAM = os.environ.get("TOLLGATE", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "target", "release", "tollgate"))
FRAGMENTS = ["-f", "mp4", "-movflags", "empty_moov+default_base_moof+frag_keyframe", "-frag_duration", "250000"]
PORTS = {2: 19801, 1: 19802}


def get(connection, target):
    connection.request("GET", target)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise OSError(f"{target}: {answer.status} {body[:200]}")
    return body


class List:
    """The pieces of a playlist: segments, or parts of the newest, each with its number, its date and how long it is."""

    def __init__(self, text, in_parts):
        value = lambda tag: float(re.search(tag + r"[:=]([\d.]+)", text)[1])
        self.target = value("#EXT-X-TARGETDURATION")
        self.hold_back = value("PART-HOLD-BACK") if in_parts else 3 * self.target
        self.map = (re.search(r'#EXT-X-MAP:URI="([^"]+)"', text) or [None, None])[1]
        self.pieces, number, part, length, date = [], int(value("#EXT-X-MEDIA-SEQUENCE")), 0, 0, 0
        for line in text.splitlines():
            if line.startswith("#EXT-X-PROGRAM-DATE-TIME:"):
                date, part = datetime.datetime.fromisoformat(line.split(":", 1)[1].replace("Z", "+00:00")).timestamp(), 0
            elif line.startswith("#EXT-X-PART:") and in_parts:
                seconds, name = float(re.search(r"DURATION=([\d.]+)", line)[1]), re.search(r'URI="([^"]+)"', line)[1]
                self.pieces.append((number, part, name, date, seconds))
                part, date = part + 1, date + seconds
            elif line.startswith("#EXTINF:"):
                length = float(line[8:].rstrip(","))
            elif not line.startswith("#"):
                if not in_parts:
                    self.pieces.append((number, 0, line, date, length))
                number += 1
        self.next = (number, part)
        self.end = self.pieces[-1][3] + self.pieces[-1][4]


def play(segment, session, way, delays, faults):
    try:
        connection = http.client.HTTPConnection("127.0.0.1", PORTS[segment], timeout=30)
        base, in_parts, until = f"/stream/{session}/", way == "parts", time.time() + SECONDS
        asked = time.time()
        text = get(connection, base + "index.m3u8").decode()
        if in_parts and "PART-HOLD-BACK" not in text:
            return
        have = List(text, in_parts)
        due = have.end - have.hold_back
        pieces = [piece for piece in have.pieces if piece[3] + piece[4] > due]
        behind, last = 0, pieces[0][:2]
        while time.time() < until:
            for number, part, name, date, _ in pieces:
                get(connection, base + name)
                # The first of it is played at once, from where it is due.
                behind = max(behind, time.time() - max(date, due))
                last = (number, part)
            if way == "polled":
                was_longer = bool(pieces)
                time.sleep(max(asked + have.target * (1 if was_longer else 0.5) - time.time(), 0))
                query = ""
            else:
                query = f"?_HLS_msn={have.next[0]}" + (f"&_HLS_part={have.next[1]}" if in_parts else "")
            asked = time.time()
            have = List(get(connection, base + "index.m3u8" + query).decode(), in_parts)
            pieces = [piece for piece in have.pieces if piece[:2] > last]
        delays.append(behind)
    except Exception as fault:  # of any kind: the table must not be made of less than all of them
        faults.append(f"{session} {way}: {fault!r}")


def first_time(media):
    """When the first picture of it is shown, in the stream's own time."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(media)
        file.flush()
        found = subprocess.run(["ffprobe", "-v", "quiet", "-select_streams", "v", "-show_entries", "packet=pts_time", "-of", "csv=p=0", file.name], capture_output=True, text=True)
        return float(found.stdout.split()[0].rstrip(","))


def join(segment, session, _, delays, faults):
    """Who takes the stream itself: when its first picture comes, beside the date of that."""
    try:
        connection = http.client.HTTPConnection("127.0.0.1", PORTS[segment], timeout=30)
        connection.request("GET", f"/stream/{session}")
        answer, media = connection.getresponse(), b""
        begun = None
        while begun is None or time.time() < begun + 1:
            media += answer.read1(65536)
            begun = begun or time.time()
        connection.close()
        connection = http.client.HTTPConnection("127.0.0.1", PORTS[segment], timeout=30)
        have = List(get(connection, f"/stream/{session}/index.m3u8").decode(), False)
        _, _, name, date, _ = have.pieces[-1]
        head = get(connection, f"/stream/{session}/{have.map}") if have.map else b""
        shown = first_time(head + get(connection, f"/stream/{session}/{name}"))
        delays.append(begun - (date + first_time(media) - shown))
    except Exception as fault:
        faults.append(f"{session} itself: {fault!r}")


def publish(segment, session, output):
    return subprocess.Popen(["ffmpeg", "-v", "quiet", "-re", "-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25", "-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000",
                             "-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-pix_fmt", "yuv420p", "-g", str(25 * segment), "-keyint_min", str(25 * segment), "-sc_threshold", "0",
                             "-c:a", "aac", *output, "-flush_packets", "1", "-method", "PUT", f"http://127.0.0.1:{PORTS[segment]}/stream/{session}"],
                            stdin=subprocess.DEVNULL)


def main():
    servers = [subprocess.Popen([PROGRAM, f"--listen=127.0.0.1:{port}", f"--hls-segment={segment}", "--log=error"], stderr=subprocess.DEVNULL) for segment, port in PORTS.items()]
    time.sleep(0.5)
    sources = [publish(segment, session, output) for segment in PORTS for session, output in (("ts", ["-f", "mpegts"]), ("mp4", FRAGMENTS))]
    try:
        time.sleep(11)
        ways = [("the stream itself", join, None), ("HLS, the list polled", play, "polled"), ("HLS, the list asked for ahead (blocking)", play, "blocking"), ("HLS in parts", play, "parts")]
        rows, faults, threads = {}, [], []
        for index in range(PLAYERS):
            for segment in PORTS:
                for session in ("ts", "mp4"):
                    for name, what, way in ways:
                        if way == "parts" and session == "ts":
                            continue
                        delays = rows.setdefault((name, segment, session), [])
                        threads.append(threading.Thread(target=what, args=(segment, session, way, delays, faults)))
                        threads[-1].start()
            # Within a group of pictures they come anywhere.
            time.sleep(0.37)
        for thread in threads:
            thread.join()
        if faults:
            raise SystemExit("\n".join(faults))
    finally:
        for process in sources + servers:
            process.kill()
    print(f"| seconds behind live, median of {PLAYERS} (least to most) | MPEG-TS, 2 s | MPEG-TS, 1 s | fragmented MP4, 2 s | fragmented MP4, 1 s |\n|---|---|---|---|---|")
    for name, _, _ in ways:
        cells = []
        for session in ("ts", "mp4"):
            for segment in (2, 1):
                delays = rows.get((name, segment, session))
                cells.append(f"{statistics.median(delays):.1f} ({min(delays):.1f} to {max(delays):.1f})" if delays else "")
        print(f"| {name} | " + " | ".join(cells) + " |")


main()
