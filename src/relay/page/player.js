// Plays the body of a live stream close to its newest picture.
//
// `LiveEdge` keeps a fraction of a second in reserve: it plays a little faster when more has piled up, and jumps
// when it is far behind. `LivePlayer` reads the body itself.

// ---- What a stream contains

const CODEC_NAMES = {
	avc1: "H.264", avc3: "H.264", hvc1: "H.265", hev1: "H.265", vp8: "VP8", vp09: "VP9", vp9: "VP9", av01: "AV1", theora: "Theora", mp4v: "MPEG-4",
	mp4a: "AAC", mp3: "MP3", opus: "Opus", vorbis: "Vorbis", flac: "FLAC", "ac-3": "AC-3", "ec-3": "E-AC-3",
};
const codecName = (codec) => CODEC_NAMES[codec.split(".")[0]] || codec;
const HEADER_BYTES_MAX = 1 << 20;

const hex = (text) => Array.from(text, (c) => c.charCodeAt(0).toString(16).padStart(2, "0")).join("");
const twoDigits = (number) => String(number).padStart(2, "0");

// Boxes that configure a decoder in MP4, and the codec string that each stands for (RFC 6381). The box's
// payload comes as text of one character for each byte.
const MP4_VIDEO = {
	avcC: (box) => `avc1.${hex(box.slice(1, 4))}`,
	// The level decides, and whether it has more than eight bits.
	hvcC: (box) => `hvc1.${box.charCodeAt(1) & 31}.${box.charCodeAt(1) & 30 ? 4 : 6}.L${box.charCodeAt(12)}.b0`,
	vpcC(box, header) {
		const [profile, level, depth] = Array.from(box.slice(4, 7), (c) => c.charCodeAt(0));
		return header.includes("vp08") ? "vp8" : `vp09.${twoDigits(profile)}.${twoDigits(level)}.${twoDigits(depth >> 4)}`;
	},
	av1C(box) {
		const [first, second] = Array.from(box.slice(1, 3), (c) => c.charCodeAt(0));
		const depth = second & 64 ? (second & 32 ? 12 : 10) : 8;
		return `av01.${first >> 5}.${twoDigits(first & 31)}${second & 128 ? "H" : "M"}.${twoDigits(depth)}`;
	},
};
const MP4_SOUND = {
	esds(box) {
		// The object type of DecoderConfigDescriptor (tag 4), and the first byte of DecoderSpecificInfo (tag 5).
		const [, kind, setup] = box.match(/^\0{4}\x03[\x80-\xff]*[\0-\x7f][^]{3}\x04[\x80-\xff]*[\0-\x7f]([^])[^]{12}(?:\x05[\x80-\xff]*[\0-\x7f]([^]))?/) || [];
		if (kind === "\x6b" || kind === "\x69") return "mp3";
		return `mp4a.40.${setup ? setup.charCodeAt(0) >> 3 : 2}`;
	},
	dOps: () => "opus",
	dfLa: () => "flac",
	dac3: () => "ac-3",
	dec3: () => "ec-3",
};
const MATROSKA = {
	V_VP8: "vp8", V_VP9: "vp9", V_AV1: "av01.0.08M.08", "V_MPEG4/ISO/AVC": "avc1.64001f", "V_MPEGH/ISO/HEVC": "hvc1.1.6.L93.b0", V_THEORA: "theora",
	A_OPUS: "opus", A_VORBIS: "vorbis", A_AAC: "mp4a.40.2", "A_MPEG/L3": "mp3", A_FLAC: "flac", A_AC3: "ac-3",
};
const OGG = { "\x80theora": "theora", "\x01vorbis": "vorbis", OpusHead: "opus", "\x7fFLAC": "flac" };

// Reads a stream's header, as text of one character for each byte. Returns null while it is not whole, else
// the type for MediaSource (without codecs; empty where there is no header) and the codecs: `video` and
// `audio`, each undefined without one.
function readHeader(header) {
	if (header.startsWith("ftyp", 4)) {
		const moov = header.indexOf("moov") - 4;
		if (moov < 0 || header.length < moov + parseInt(hex(header.slice(moov, moov + 4)), 16)) return null;
		const codecIn = (boxes) => {
			const name = Object.keys(boxes).find((name) => header.includes(name));
			return name && boxes[name](header.slice(header.indexOf(name) + 4), header);
		};
		return { type: "video/mp4", video: codecIn(MP4_VIDEO), audio: codecIn(MP4_SOUND) };
	}
	if (header.startsWith("\x1a\x45\xdf\xa3")) {
		const cluster = header.indexOf("\x1f\x43\xb6\x75");
		if (cluster < 0) return null;
		const head = header.slice(0, cluster);
		const codecOf = (letter) => {
			const known = Object.keys(MATROSKA).find((name) => name[0] === letter && head.includes(name));
			return known ? MATROSKA[known] : head.match(new RegExp(`${letter}_[A-Z0-9/]+`))?.[0];
		};
		return { type: "video/webm", video: codecOf("V"), audio: codecOf("A") };
	}
	if (header.startsWith("OggS")) {
		const codecs = Object.keys(OGG).filter((mark) => header.slice(0, 4096).includes(mark)).map((mark) => OGG[mark]);
		return { type: "video/ogg", video: codecs.find((codec) => codec === "theora"), audio: codecs.find((codec) => codec !== "theora") };
	}
	return header.length < 16 ? null : { type: "" };
}
const typeOf = ({ type }, ...codecs) => `${type}; codecs="${codecs.filter(Boolean).join(",")}"`;
// MP3 and AAC have no header: MediaSource takes their media types without codecs.
const BARE_SOUND = { MP3: "audio/mpeg", AAC: "audio/aac" };
const textOf = (bytes) => Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");

// Whether the browser can decode these pictures.
function canShow(tracks, media) {
	if (!tracks.video) return true;
	const containers = { theora: "video/ogg", vp8: "video/webm", vp9: "video/webm" };
	const type = typeOf({ type: containers[tracks.video] || "video/mp4" }, tracks.video);
	return media.canPlayType(type) !== "" || Boolean(window.MediaSource?.isTypeSupported(type));
}

// Asks for a body and reads its header. Gives the tracks, the bytes that have come and the reader of the rest.
async function openBody(url, signal) {
	const response = await fetch(url, { cache: "no-store", signal });
	if (!response.ok) throw new Error(`status ${response.status}`);
	const reader = response.body.getReader(), chunks = [];
	for (let header = ""; header.length < HEADER_BYTES_MAX; ) {
		const { value, done } = await reader.read();
		if (done) break;
		chunks.push(value);
		header += textOf(value);
		const tracks = readHeader(header);
		if (tracks) return { tracks, chunks, reader };
	}
	throw new Error("no header of a stream");
}

// Firefox 153 drops the pictures of a cluster of WebM that begins without a key frame. Gives a function that adds
// such clusters to the one before: their heads become Void elements.
function clusterJoiner() {
	let rest = [], time = 0, base = null, video;
	const lengthAt = (at) => Math.clz32(rest[at]) - 23;
	const number = (from, to, mask = 255) => rest.slice(from, to).reduce((value, byte, n) => value * 256 + (n ? byte : byte & mask), 0);
	return (chunk) => {
		rest = new Uint8Array([...rest, ...chunk]);
		let head = null;
		for (let at = 0, end; ; at = end) {
			const sizeAt = at + lengthAt(at), bodyAt = sizeAt + lengthAt(sizeAt), id = number(at, sizeAt), isCluster = id === 0x1f43b675;
			end = isCluster || id === 0x18538067 ? bodyAt : bodyAt + number(sizeAt, bodyAt, 255 >> (bodyAt - sizeAt));
			if (end > rest.length) {
				const ready = rest.slice(0, head?.at ?? at);
				rest = rest.slice(ready.length);
				return ready;
			}
			if (isCluster) head = { at, sizeAt, bodyAt };
			else if (id === 0x1a45dfa3) base = null;
			else if (id === 0xe7) [time, head.end] = [number(bodyAt, end), end];
			if (id !== 0xa3 && id !== 0xa0) continue;
			// SimpleBlock, or a Block in its group: the track, the time in the cluster, flags.
			const block = new DataView(rest.buffer, id === 0xa3 ? bodyAt : bodyAt + 1 + lengthAt(bodyAt + 1));
			const track = block.getUint8(0), isKey = block.getUint8(3) > 127, moved = block.getInt16(1) + time - base;
			if (id === 0xa3 && !isKey) video = track;
			if (head && (base === null || (isKey && track === video) || moved > 32767)) {
				base = time;
				rest.fill(255, head.sizeAt, head.bodyAt)[head.sizeAt] >>= head.bodyAt - head.sizeAt - 1;
			} else {
				if (head) rest.set([0xec, 0x80 + head.end - head.at - 2], head.at);
				block.setInt16(1, moved);
			}
			head = null;
		}
	};
}

// ---- Playing at the live edge

// The reserve that is left when the next bytes come. Stalls raise it up to the maximum.
const RESERVE_SECONDS = 0.2, RESERVE_SECONDS_MAX = 0.8;
// At the start the newest bytes may be this old already: a fragment.
const FRAGMENT_SECONDS = 0.5;
const FASTER = 1.05, SLOWER = 0.95;
// Farther behind than this it jumps.
const NEW_FAR_SECONDS = 0.5, FAR_SECONDS = 3;
const STUCK_SECONDS = 0.4;
const KEPT_SECONDS = 20, AHEAD_SECONDS_MAX = 20;
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// Plays a live body in a media element. `fail` is called with an error if that ends before the body does;
// where no decoder is there for the pictures, `codec` of the error names it.
class LivePlayer {
	#stop = new AbortController();

	constructor(media, url, fail, bareType = "") {
		this.media = media;
		this.bareType = bareType;
		this.source = new MediaSource();
		const address = URL.createObjectURL(this.source);
		this.source.addEventListener("sourceopen", () => URL.revokeObjectURL(address), { once: true });
		media.src = address;
		this.edge = new LiveEdge(media);
		this.#run(url).catch((error) => {
			if (this.#stop.signal.aborted) return;
			this.stop();
			fail(error);
		});
	}

	stop() {
		this.#stop.abort();
		this.edge.stop();
	}

	async #run(url) {
		const { tracks, chunks, reader } = await openBody(url, this.#stop.signal);
		if (!canShow(tracks, this.media)) throw Object.assign(new Error("no decoder"), { codec: codecName(tracks.video) });
		while (this.source.readyState !== "open") await pause(10);
		const buffer = this.source.addSourceBuffer(tracks.type ? typeOf(tracks, tracks.video, tracks.audio) : this.bareType);
		const join = isFirefox && tracks.type === "video/webm" ? clusterJoiner() : (chunk) => chunk;
		for (const chunk of chunks) await this.#append(buffer, join(chunk));
		for (;;) {
			// One that is paused takes no more than this: the server skips for it, or ends it.
			while (this.#ahead() > AHEAD_SECONDS_MAX && this.media.paused) await pause(500);
			const { value, done } = await reader.read();
			if (done) break;
			await this.#append(buffer, join(value));
		}
		if (this.source.readyState === "open") this.source.endOfStream();
		this.edge.stop();
	}

	async #append(buffer, chunk) {
		const { media } = this;
		const change = (what) => new Promise((resolve, reject) => {
			buffer.onupdateend = resolve;
			buffer.onerror = () => reject(media.error || new Error("the browser cannot read it"));
			what();
		});
		const old = media.currentTime - KEPT_SECONDS;
		if (buffer.buffered.length > 0 && buffer.buffered.start(0) < old - KEPT_SECONDS) await change(() => buffer.remove(0, old));
		await change(() => buffer.appendBuffer(chunk));
	}

	#ahead() {
		const { buffered, currentTime } = this.media;
		return buffered.length === 0 ? 0 : buffered.end(buffered.length - 1) - currentTime;
	}
}

// Keeps what a media element plays close to the newest picture that it has.
class LiveEdge {
	#reserve = RESERVE_SECONDS;
	// The seconds ahead at each time. The least of them is the reserve.
	#samples = [];
	#end = 0;
	#grownAt = 0;
	// The last times between two pieces, in seconds.
	#waits = [];
	#at = 0;
	#movedAt = 0;
	// Whether it may jump once, since the delay before the first picture was not known.
	#isNew = true;

	constructor(media) {
		this.media = media;
		// Whether the page reads the body itself. Otherwise only the speed changes.
		this.isOwn = media.src.startsWith("blob:");
		this.isStopped = new AbortController();
		media.addEventListener("waiting", () => this.#stalled(), { signal: this.isStopped.signal });
		this.timer = setInterval(() => this.#keepUp(), 100);
	}

	stop() {
		this.isStopped.abort();
		clearInterval(this.timer);
		this.media.playbackRate = 1;
	}

	#stalled() {
		// A jump waits, too.
		if (this.media.seeking || this.#samples.length === 0) return;
		this.#reserve = Math.min(RESERVE_SECONDS_MAX, this.#reserve + RESERVE_SECONDS);
		this.media.playbackRate = 1;
	}

	#keepUp() {
		const { media } = this, { buffered } = media, now = performance.now() / 1000;
		// Music in <video src> keeps its tempo.
		if (buffered.length === 0 || media.seeking || (!this.isOwn && media.videoWidth === 0)) return;
		const end = buffered.end(buffered.length - 1);
		if (end > this.#end) {
			const isFirst = this.#end === 0;
			if (!isFirst) this.#waits = [now - this.#grownAt, ...this.#waits].slice(0, 16);
			this.#end = end;
			this.#grownAt = now;
			if (isFirst && this.isOwn) return this.#jumpTo(end - this.#reserve - FRAGMENT_SECONDS);
		}
		if (media.paused) return void (this.#samples = []);
		const here = media.currentTime;
		if (here !== this.#at || end - here <= this.#reserve) {
			this.#at = here;
			this.#movedAt = now;
		} else if (this.isOwn && now - this.#movedAt > STUCK_SECONDS) {
			// Pictures are missing here. Browsers pass short gaps by themselves, so this waits a moment.
			const starts = [...Array(buffered.length).keys()].map((n) => buffered.start(n));
			return this.#jumpTo(starts.find((start) => start > here) ?? here + STUCK_SECONDS);
		}
		// Nothing is ahead in a stall. Later this must not count.
		if (media.readyState < 3) return void (this.#samples = []);
		// The longest wait may be a stall.
		const [, usualWait = 0] = [...this.#waits].sort((a, b) => b - a), span = Math.max(this.isOwn ? 2 : 10, 2 * usualWait);
		this.#samples.push({ at: now, ahead: end - here });
		this.#samples = this.#samples.filter(({ at }) => at > now - span);
		const surplus = Math.min(...this.#samples.map(({ ahead }) => ahead)) - this.#reserve;
		const seconds = now - this.#samples[0].at;
		if (seconds < span / 2) return;
		const isFirst = this.#isNew && usualWait > 0 && seconds > span - 0.2;
		if (isFirst) this.#isNew = false;
		if (this.isOwn && surplus > (isFirst ? NEW_FAR_SECONDS : FAR_SECONDS)) return this.#jumpTo(here + surplus);
		const wasFaster = media.playbackRate > 1;
		media.playbackRate = surplus > (wasFaster ? 0.02 : 0.1) ? FASTER : surplus < -this.#reserve / 2 ? SLOWER : 1;
	}

	#jumpTo(seconds) {
		const { media } = this;
		media.currentTime = Math.max(seconds, media.buffered.start(0));
		media.playbackRate = 1;
		this.#samples = [];
		this.#movedAt = performance.now() / 1000;
	}
}
