#!/usr/bin/env python3
"""Makes small files of the kinds of media that once were served wrong, for .ci/found.py.

    .ci/kinds.py FOLDER [NAME ...]        needs ffmpeg

Names begin with the kind. The files have nothing but test pictures and a tone.
"""
import base64, concurrent.futures, os, re, subprocess, sys, tempfile

PICTURES = "-f lavfi -i testsrc2=size=160x120:rate={rate}:duration={seconds}"
SOUND = "-f lavfi -i sine=frequency=330:sample_rate=48000:duration={seconds}"


def ffmpeg(arguments, data=None):
    command = ["ffmpeg", "-nostdin", "-v", "error", "-threads", "1", *arguments.split(), "-"]
    # SVT-AV1 prints its settings unless it is told not to.
    return subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True, env={**os.environ, "SVT_LOG": "1"}).stdout


def media(video, sound, container, rate="25", seconds=4, more=""):
    """Pictures and sound of these codecs in a container. Either may be None."""
    inputs = (PICTURES if video else "") + " " + (SOUND if sound else "")
    codecs = " ".join(filter(None, [video and f"-c:v {video} -pix_fmt yuv420p", sound and f"-c:a {sound}"]))
    container = {"mp4": "mp4 -movflags empty_moov+default_base_moof+frag_keyframe"}.get(container, container)
    return ffmpeg(f"{inputs.format(rate=rate, seconds=seconds)} {codecs} {more} -fflags +bitexact -f {container}")


def copy(data, container, more=""):
    return ffmpeg(f"-i - -map 0 -c copy {more} -f {container}", data)


# ---- MPEG-TS, byte by byte -----------------------------------------------------------------------


def payload_begin(packet):
    return 4 + (packet[4] + 1 if packet[3] & 0x20 else 0)


def pid(packet):
    return (packet[1] & 0x1F) << 8 | packet[2]


def pictures_of(data):
    """The packets of ffmpeg's first stream (PID 256), each with the place of its payload."""
    for at in range(0, len(data) - 187, 188):
        packet = data[at:at + 188]
        if pid(packet) == 256 and packet[3] & 0x10:
            yield at, at + payload_begin(packet)


def begins(data):
    return [(at, begin) for at, begin in pictures_of(data) if data[at + 1] & 0x40]


def edit_stream(data, edit):
    """Edits the elementary stream of the pictures in its packets. The edit keeps its length."""
    data, places = bytearray(data), []
    for at, begin in pictures_of(data):
        begin += 9 + data[begin + 8] if data[at + 1] & 0x40 else 0
        places.append((begin, at + 188))
    stream = edit(b"".join(data[begin:end] for begin, end in places))
    for begin, end in places:
        data[begin:end], stream = stream[:end - begin], stream[end - begin:]
    return bytes(data)


def without_later_sets(codec):
    """Only the first parameter sets stay. The others become filler of the same length."""
    kinds, filler = {"h264": (rb"[\x07\x27\x47\x67\x08\x28\x48\x68]", b"\x0c"), "hevc": (rb"[\x40\x42\x44]", b"\x4c")}[codec]

    def edit(stream):
        later = stream.index(b"\0\0\1", 2000)
        return stream[:later] + re.sub(b"(\0\0\x01)" + kinds, lambda match: match[1] + filler, stream[later:])

    return lambda data: edit_stream(data, edit)


def without_later_sequences(data):
    """MPEG-2: the sequence header and its extension come once. Later ones become user data."""
    def edit(stream):
        later = stream.index(b"\0\0\1\xb3") + 100
        return stream[:later] + re.sub(b"\0\0\x01(\xb3|\xb5[\x10-\x1f])", lambda match: b"\0\0\x01\xb2" + match[1][1:], stream[later:])

    return edit_stream(data, edit)


def with_flags(data):
    """The random-access indicator with every picture, where there is room for it."""
    data = bytearray(data)
    for at, _ in begins(data):
        if data[at + 3] & 0x20 and data[at + 4]:
            data[at + 5] |= 0x40
    return bytes(data)


def without_flags(data):
    data = bytearray(data)
    for at, _ in begins(data):
        if data[at + 3] & 0x20 and data[at + 4]:
            data[at + 5] &= ~0x40
    return bytes(data)


def moved(ticks):
    """Decode times are later by as many ticks, so that pictures are shown before."""
    def move(data):
        data = bytearray(data)
        for _, begin in begins(data):
            if data[begin + 7] >> 6 == 3:
                stamp = data[begin + 14:begin + 19]
                time = ((stamp[0] >> 1 & 7) << 30 | stamp[1] << 22 | stamp[2] >> 1 << 15 | stamp[3] << 7 | stamp[4] >> 1) + ticks
                data[begin + 14:begin + 19] = bytes([0x11 | time >> 29 & 0xE, time >> 22 & 0xFF, time >> 14 & 0xFE | 1, time >> 7 & 0xFF, time << 1 & 0xFE | 1])
        return bytes(data)

    return move


def crc(section):
    value = 0xFFFFFFFF
    for byte in section:
        value ^= byte << 24
        for _ in range(8):
            value = (value << 1 ^ (0x04C11DB7 if value >> 31 else 0)) & 0xFFFFFFFF
    return value.to_bytes(4, "big")


def with_tables(data, edit):
    """Edits each section that is whole in its packet. The edit may keep its length only."""
    data = bytearray(data)
    for at in range(0, len(data) - 187, 188):
        packet = data[at:at + 188]
        if pid(packet) in (0, 4096) and packet[1] & 0x40:
            begin = at + payload_begin(packet)
            begin += 1 + data[begin]
            length = ((data[begin + 1] & 0xF) << 8 | data[begin + 2]) - 1
            section = edit(at, pid(packet), bytearray(data[begin:begin + length]))
            data[begin:begin + length + 4] = section + crc(section)
    return bytes(data)


def versions_change(data):
    """The map's version changes halfway through, and nothing else of it."""
    def edit(at, pid, section):
        if pid == 4096 and at > len(data) * 0.45:
            section[5] ^= 0x02
        return section

    return with_tables(data, edit)


def program_goes(data):
    """The PAT names another program's map for a while, which never comes."""
    def edit(at, pid, section):
        if pid == 0 and 0.4 < at / len(data) < 0.6:
            section[5] ^= 0x02
            section[-2:] = (0xE000 | 0x123).to_bytes(2, "big")
        return section

    return with_tables(data, edit)


def type_of_stream(index, kind):
    """The map names another type for a stream."""
    def edit(at, pid, section):
        if pid == 4096:
            place = 12 + ((section[10] & 0xF) << 8 | section[11])
            for _ in range(index):
                place += 5 + ((section[place + 3] & 0xF) << 8 | section[place + 4])
            section[place] = kind
        return section

    return lambda data: with_tables(data, edit)


def scrambled(data):
    data = bytearray(data)
    for at in range(0, len(data) - 187, 188):
        if 256 <= pid(data[at:at + 188]) < 4096 and data[at + 3] & 0x10:
            begin = at + payload_begin(data[at:at + 188])
            data[at + 3] |= 0x80
            data[begin:at + 188] = bytes(byte ^ 0x5A for byte in data[begin:at + 188])
    return bytes(data)


def from_within(part):
    """What a tuner takes: from any byte on."""
    return lambda data: data[int(len(data) * part):]


# ---- other containers ----------------------------------------------------------------------------


def flv_without_first_key(data):
    """The tags without the first group's key picture: the stream begins with P pictures."""
    head, at, is_first = data[:13], 13, True
    out = [head]
    while at + 11 <= len(data):
        end = at + 15 + int.from_bytes(data[at + 1:at + 4], "big")
        first, kind = data[at + 11:at + 13]
        is_setup = kind == 0 if first < 0x80 else first & 0x0F == 0
        if data[at] == 9 and first >> 4 & 7 == 1 and not is_setup and is_first:
            is_first = False
        else:
            out.append(data[at:end])
        at = end
    return b"".join(out)


def elements(data, at, end):
    """The elements of Matroska there: the number, the first byte, the body and its end of each."""
    def vint(at, keep):
        length = 9 - data[at].bit_length()
        number = int.from_bytes(data[at:at + length], "big")
        return at + length, number if keep else number & (1 << 7 * length) - 1

    while at < end:
        first = at
        at, number = vint(at, True)
        at, size = vint(at, False)
        yield number, first, at, min(at + size, end)
        at += size


def with_start_codes(data):
    """Matroska whose pictures have start codes, and no CodecPrivate, as a browser's recorder wrote it."""
    data = bytearray(data)

    def walk(at, end):
        for number, first, body, last in elements(data, at, end):
            if number in (0x18538067, 0x1F43B675, 0x1654AE6B, 0xAE, 0xA0):
                walk(body, last)
            elif number == 0x63A2 and data[body] == 1:
                # Void.
                data[first:last] = b"\xec\x01" + (last - first - 9).to_bytes(7, "big") + bytes(last - first - 9)
            elif number in (0xA3, 0xA1) and data[body] == 0x81:
                body += 4
                while body < last:
                    length = int.from_bytes(data[body:body + 4], "big")
                    data[body:body + 4] = b"\0\0\0\x01"
                    body += 4 + length

    walk(0, len(data))
    return bytes(data)


def with_cover(sound, video=None):
    """Ogg with a picture of 210,000 bytes among its comments: its header is longer than 256 KiB."""
    bytes_, seconds = 210_000, 10 if video else 30 if sound == "flac" else 90
    picture = bytes.fromhex("00000003 00000009") + b"image/png" + bytes(20) + bytes_.to_bytes(4, "big") + bytes(bytes_)
    comment = base64.b64encode(picture).decode().replace("=", "\\=")
    inputs = ((PICTURES if video else "") + " " + SOUND).format(rate="25", seconds=seconds)
    place = 2 if video else 1
    codecs = (f"-map 1 -c:v {video} -pix_fmt yuv420p -g 25 " if video else "") + f"-c:a {sound}"
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(f";FFMETADATA1\nMETADATA_BLOCK_PICTURE={comment}\n")
        file.flush()
        return ffmpeg(f"{inputs} -f ffmetadata -i {file.name} -map 0 {codecs} -map_metadata:s:{place - 1} {place}:g -f ogg")


X264 = "libx264 -preset ultrafast -bf 0"
X264_B = "libx264 -preset veryfast -bf 3"
X265 = "libx265 -preset ultrafast -x265-params log-level=none:keyint=25:min-keyint=25"
MPEG2 = "mpeg2video -g 25 -bf 2"
OPEN = "-x264-params open-gop=1:keyint=25:min-keyint=25:scenecut=0"


def x265(parameters):
    return f"libx265 -preset ultrafast -x265-params log-level=none:{parameters}"


MADE = {
    # Later key pictures without their parameter sets.
    "01-open-groups.ts": lambda: copy(media(f"{X264_B} {OPEN}", "aac", "mp4"), "mpegts"),
    "01-h264-sets-once.ts": lambda: without_later_sets("h264")(media(f"{X264} -g 25", "mp2", "mpegts")),
    "01-h265-sets-once.ts": lambda: without_later_sets("hevc")(media(x265("keyint=25:min-keyint=25:bframes=3"), "ac3", "mpegts")),
    "01-mpeg2-sequence-once.ts": lambda: without_later_sequences(media(MPEG2, "mp2", "mpegts")),
    # Long fragments.
    "02-x264-keyint-250.mp4": lambda: media(f"{X264_B} -g 250", "aac", "mp4", seconds=12),
    "02-fragment-25s.mp4": lambda: media(f"{X264} -g 625", "aac", "mp4", seconds=52),
    "02-h265-separate.mp4": lambda: media(x265("keyint=120:min-keyint=120"), "ac3", "mp4 -movflags empty_moov+default_base_moof+frag_keyframe+separate_moof+delay_moov", seconds=10),
    # MP3 and others in FLV and Matroska.
    "03-mp3.flv": lambda: media(f"{X264} -g 25", "libmp3lame -ar 44100", "flv"),
    "03-mp3-no-metadata.flv": lambda: media(f"{X264_B} -g 50", "libmp3lame -ar 22050", "flv -flvflags no_metadata"),
    "03-mp3.mkv": lambda: media(f"{X264_B} -g 30", "libmp3lame", "matroska", rate="30000/1001"),
    "03-h264-ac3-late.mkv": lambda: media(f"{X264} -g 25", "ac3 -af asetpts=PTS+1.5/TB", "matroska"),
    # Pictures shown before their decode time.
    "04-h264-before.ts": lambda: moved(7200)(media(f"{X264_B} -g 25", "aac", "mpegts")),
    "04-h265-before.ts": lambda: moved(9009)(media(x265("keyint=30:bframes=3"), "ac3", "mpegts", rate="30000/1001")),
    # Flags or parameter sets with every picture.
    "05-h265-sets.ts": lambda: without_flags(media(x265("keyint=25:bframes=2"), "aac", "mpegts", more="-bsf:v dump_extra=freq=all -flags:v +global_header")),
    "05-mpeg2-flags.ts": lambda: with_flags(media(MPEG2, "mp2", "mpegts")),
    "05-h264-sets-and-flags.ts": lambda: with_flags(media(f"{X264_B} -g 50", "aac", "mpegts", more="-bsf:v dump_extra=freq=all -flags:v +global_header")),
    # Taken within a group.
    "06-h264.ts": lambda: from_within(0.31)(media(f"{X264} -g 75", "aac", "mpegts", seconds=9)),
    "06-h265-open.ts": lambda: from_within(0.3)(media(x265("keyint=75:bframes=2"), "aac", "mpegts", seconds=9)),
    "06-mpeg2.ts": lambda: from_within(0.22)(media("mpeg2video -g 50 -bf 2", "mp2", "mpegts", seconds=9)),
    "06-late-key.ts": lambda: from_within(0.04)(media(f"{X264_B} -g 150", "aac", "mpegts", seconds=16)),
    # Ogg with a cover.
    "07-opus-cover.ogg": lambda: with_cover("libopus"),
    "07-flac-cover.ogg": lambda: with_cover("flac"),
    "07-theora-cover.ogg": lambda: with_cover("libvorbis", video="libtheora"),
    # Nothing can be carried.
    "08-latm.ts": lambda: copy(media(None, "aac", "mp4"), "mpegts", "-mpegts_flags latm"),
    "08-dts.ts": lambda: media(None, "dca -strict -2", "mpegts"),
    "08-ac4.ts": lambda: type_of_stream(0, 0x06)(edit_stream(media(None, "aac", "mpegts"), lambda stream: bytes(byte ^ 0x35 for byte in stream))),
    "08-vp8-vorbis.webm": lambda: media("libvpx -cpu-used 8 -deadline realtime -g 25", "libvorbis", "webm"),
    "08-alac.mp4": lambda: media(None, "alac", "mp4 -movflags empty_moov+default_base_moof -frag_duration 500000"),
    "08-scrambled.ts": lambda: scrambled(media(f"{X264} -g 25", "aac", "mpegts")),
    # Programs that change.
    "09-version.ts": lambda: versions_change(media(f"{X264} -g 50", "aac", "mpegts", seconds=8)),
    "09-program-goes.ts": lambda: program_goes(media(f"{X264} -g 25", "aac", "mpegts", seconds=8)),
    # Pictures come before the first key picture.
    "10-h264.flv": lambda: flv_without_first_key(media(f"{X264} -g 50", "aac", "flv", seconds=7)),
    "10-h264-b.flv": lambda: flv_without_first_key(media(f"{X264_B} -g 50", "libmp3lame -ar 44100", "flv", seconds=7)),
    # Small.
    "11-hdr.mkv": lambda: media(x265("keyint=25:master-display=G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,1):max-cll=1000,400:repeat-headers=0"), "aac", "matroska"),
    "11-h264-start-codes.mkv": lambda: with_start_codes(media(f"{X264_B} -g 25", "libopus", "matroska", more="-bsf:v dump_extra")),
    "11-h265-start-codes.mkv": lambda: with_start_codes(media(x265("keyint=25:bframes=2"), "aac", "matroska", more="-bsf:v dump_extra")),
    "11-vp8-opus.webm": lambda: media("libvpx -cpu-used 8 -deadline realtime -g 25", "libopus", "webm"),
    "11-av1-opus.mkv": lambda: media("libsvtav1 -preset 12 -g 25", "libopus", "matroska"),
}


def main():
    folder, names = sys.argv[1], sys.argv[2:]
    os.makedirs(folder, exist_ok=True)

    def make(name):
        data = MADE[name]()
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = {name: pool.submit(make, name) for name in names or MADE}
        for job in jobs.values():
            job.result()


main()
