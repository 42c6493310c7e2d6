
const media = $("media"), page = document.body;

// ---- Where the stream is

const asked = location.search.match(/[?&]sessionid=([^&]*)/);
const id = decodeURIComponent(asked ? asked[1] : location.pathname.slice(location.pathname.lastIndexOf("/") + 1));
// The page may stand below a proxy's path: the streams are beside it.
const root = new URL(asked ? "." : "..", location.origin + location.pathname).href;
const stream = root + "stream" + sessionPath(id);

// ---- What can be played

// By a part of the media type.
const NAMES = { webm: "WebM", matroska: "Matroska", mp2t: "MPEG-TS", mp4: "MP4", flv: "FLV", ogg: "Ogg", "audio/mpeg": "MP3", aac: "AAC" };
// The server can give these out as HLS,
const SEGMENTED = ["MPEG-TS", "MP4", "MP3", "AAC", "FLV", "Matroska"];
// these as MP4, which every browser plays,
const REMUXED = ["MPEG-TS", "FLV", "Matroska"];
// and these MediaSource takes as they are.
const FOR_MEDIA_SOURCE = ["MP4", "WebM"];
const isFirefox = "mozInnerScreenX" in window;
// No browser plays these unless it says so itself. With others a trial costs little.
const HOPELESS = ["MPEG-TS", "FLV"];
// Apple's players take a live stream as HLS, and of a body they want ranges, which a live one has not.
const isApple = "WebKitMediaKeys" in window || "webkitShowPlaybackTargetPicker" in media;

const bare = (type) => type.split(";")[0].trim().toLowerCase();
const nameOf = (type) => NAMES[Object.keys(NAMES).find((part) => bare(type).includes(part))] || "";
const canPlay = (type) => media.canPlayType(type) !== "" || media.canPlayType(bare(type)) !== "";

// The ways to play a stream of this type, the best first. It has to begin within `seconds`.
function candidates(type) {
	const name = nameOf(type), isRemuxed = REMUXED.includes(name) && !isFolder(id);
	const body = { url: stream, form: name, seconds: 40, isWanted: canPlay(type) || !HOPELESS.includes(name) };
	const segments = { url: stream + "/index.m3u8", form: `${name}, HLS`, seconds: 60, isWanted: SEGMENTED.includes(name) && !isFolder(id) && canPlay("application/vnd.apple.mpegurl") };
	const remuxed = { url: stream + "/live.mp4", form: `${name}, as MP4`, seconds: 40, isWanted: isRemuxed && canPlay("video/mp4") };
	// At the live edge: the body if MediaSource takes it, otherwise the remuxed copy.
	const bareType = BARE_SOUND[name], isForMediaSource = isRemuxed || FOR_MEDIA_SOURCE.includes(name) || (bareType && window.MediaSource?.isTypeSupported(bareType));
	const live = { ...(isRemuxed ? remuxed : body), isLive: true, bareType, isWanted: Boolean(window.MediaSource && isForMediaSource) };
	return [live, ...(isApple ? [segments, body, remuxed] : [body, remuxed, segments])].filter((candidate) => candidate.isWanted);
}

// ---- What is shown

const OTHERS = "Another browser or player may play it: see below.";
const AGAIN = "This page tries again by itself.";
const BROKEN_OFF = "The stream broke off; waiting for it to come back";
// For each state: the word below the picture, and the title and the sentence on the cover.
const WORDS = {
	starting: ["Starting", "Starting"],
	waiting: ["Waiting", "The stream has not started yet", "It plays here as soon as it starts."],
	busy: ["Waiting", "The stream cannot be reached now", AGAIN],
	full: ["Waiting", "All places are taken", AGAIN],
	halted: ["Waiting", "Paused by the operator", AGAIN],
	ended: ["Ended", "The stream has ended", "If it comes back, it plays here."],
	lost: ["Waiting", BROKEN_OFF, "It plays on here as soon as it can."],
	expired: ["Not admitted", "This link has expired", "Ask for a new one where you got it."],
	refused: ["Not admitted", "This link does not work", "It may be mistyped or withdrawn. Ask for a new one where you got it."],
	unplayable: ["Not playable here", "This browser cannot play the stream", OTHERS],
	ready: ["Ready", "The stream is there"],
	playing: ["Live"],
	paused: ["Paused"],
	late: [BROKEN_OFF],
};
const LOOKS = { busy: "waiting", full: "waiting", halted: "waiting", lost: "waiting", expired: "refused", paused: "playing", late: "playing" };
const BUTTONS = { ready: "Play", refused: "Try again", unplayable: "Try again" };

let state = "starting";
// `instead` replaces the state's own sentence, `heading` its title. `detail` is the reason that the server or the
// browser gives.
function show(next, instead, detail = "", whose = "server", heading = "") {
	const [chip, ownTitle = "", text = ""] = WORDS[next], title = heading || ownTitle, look = LOOKS[next] || next, isPicture = look === "playing";
	const isNew = next !== state;
	state = next;
	page.dataset.state = look;
	page.classList.toggle("late", next === "late");
	for (const sign of $("mark").children) sign.toggleAttribute("hidden", !sign.classList.contains(look));
	write("chip", chip);
	write("title", title);
	write("text", instead || text);
	write("detail", detail && `The ${whose} says: ${detail}`);
	$("more").hidden = !detail;
	write("go", BUTTONS[look] || "");
	write("form", isPicture && current ? current.form : "");
	$("go").hidden = !BUTTONS[look];
	$("cover").hidden = isPicture;
	$("elsewhere").hidden = look === "refused";
	media.controls = isPicture;
	if (!isPicture) write("now", "");
	document.title = isPicture ? $("name").textContent : title;
	if (isNew) askTitle();
	if (isNew && next !== "late") write("said", title || chip);
	if (isNew && next === "unplayable") $("elsewhere").open = true;
	showSound();
}

// Shows the button for sound while the sound is off.
function showSound() {
	const isSilent = media.mozHasAudio === false || media.webkitAudioDecodedByteCount === 0 || media.audioTracks?.length === 0;
	$("sound").hidden = page.dataset.state !== "playing" || !media.muted || isSilent;
	if (media.readyState === 0) return;
	const hasPicture = media.videoWidth > 0;
	$("stage").classList.toggle("sound", !hasPicture);
	if (state === "playing" && !hasPicture && current?.url.endsWith(".mp4")) write("form", `${current.form}, without a picture`);
}

// ---- Asking the server

const AGAIN_SECONDS = 2, AGAIN_SECONDS_MAX = 15, RARELY_SECONDS = 60, LONG_MINUTES = 10;
let vain = 0, since = Date.now(), timer = 0, turn = 0, awakeUntil = 0;

// Asks again later, each time after a longer pause. A random part keeps viewers apart.
function later(isRare, atLeastSeconds = 0) {
	const most = isRare || Date.now() - since > LONG_MINUTES * 60e3 ? RARELY_SECONDS : AGAIN_SECONDS_MAX;
	const seconds = Math.max(atLeastSeconds, Math.min(most, (isRare ? 8 : AGAIN_SECONDS) * 1.5 ** vain++));
	clearTimeout(timer);
	timer = setTimeout(look, seconds * 1000 * (0.75 + Math.random() / 2));
}

// Asks the server about the stream, and reads nothing of its body.
async function ask(method) {
	const stop = new AbortController(), answer = { status: 0, type: "", retryAfter: 0 };
	try {
		const response = await fetch(stream, { method, cache: "no-store", signal: stop.signal }), fields = response.headers;
		Object.assign(answer, { status: response.status, type: fields.get("Content-Type") || "", retryAfter: fields.get("Retry-After") | 0 });
		if (!response.ok && method === "GET") Object.assign(answer, await response.json());
	} catch {
		// The server does not answer (status 0), or not in JSON.
	}
	stop.abort();
	return answer;
}

let hasPlayed = false;
// Asks whether the stream runs, and plays it then. After `hasFailed` it does not try the same way again.
async function look(hasFailed) {
	const mine = ++turn;
	clearTimeout(timer);
	let answer = await ask("HEAD");
	// If the stream does not run yet: only GET waits for it, and makes an edge fetch it.
	if (mine === turn && (answer.status > 200 || bare(answer.type) === "application/octet-stream")) {
		if (answer.status === 404 && state === "starting") show("waiting");
		answer = await ask("GET");
	}
	if (mine !== turn) return;
	const { status, type, retryAfter, detail, reason } = answer;
	if (status === 200) {
		if (!hasFailed) rest = candidates(type);
		return tryNext(type);
	}
	stop();
	if (status === 401 || status === 403) {
		show(reason === "expired" ? "expired" : "refused", "", detail);
		return later(true);
	}
	if (status === 406) {
		show("unplayable", "This stream is not for browsers.", detail);
		return later(true);
	}
	if (status === 404) show(hasPlayed ? "ended" : "waiting");
	else if (reason === "full") show("full");
	else if (reason === "paused") show("halted");
	else if (status) show("busy", "", detail);
	else show(hasPlayed ? "lost" : "busy", `The server does not answer. ${AGAIN}`);
	later(false, Math.min(retryAfter, RARELY_SECONDS));
}

// ---- Playing

const PATIENCE_SECONDS = 30;
// The way that plays or is tried, and the others; its last position, the time when that changed, and the start.
let current = null, player = null, rest = [], at = 0, moved = 0, begun = 0, pausedAt = 0, patience = PATIENCE_SECONDS;

function tryNext(type) {
	const next = rest.shift();
	if (next) return play(next);
	const name = nameOf(type), why = media.error?.message.slice(0, 200) || "";
	stop();
	show("unplayable", name && `It is ${name}, which does not play here. ${OTHERS}`, why, "browser");
	later(true);
}
function play(candidate) {
	player?.stop();
	player = null;
	current = candidate;
	at = -1;
	begun = pausedAt = 0;
	moved = Date.now();
	media.dataset.url = candidate.url;
	if (candidate.isLive) player = new LivePlayer(media, candidate.url, failLive, candidate.bareType);
	else if (candidate.url.endsWith("/index.m3u8")) media.src = candidate.url;
	else return playBody(candidate);
	start();
}
// The browser plays the sound of a body whose pictures it cannot decode: the header says first what it has.
async function playBody(candidate) {
	const once = new AbortController();
	const { tracks } = await openBody(candidate.url, once.signal).catch(() => ({ tracks: {} }));
	once.abort();
	if (current !== candidate) return;
	if (!canShow(tracks, media)) return failLive({ codec: codecName(tracks.video) });
	media.src = candidate.url;
	player = new LiveEdge(media);
	start();
}
// Without a decoder for the pictures no other way would show them.
function failLive({ codec }) {
	if (!codec) return fail();
	stop();
	show("unplayable", "", "", "", `This browser cannot show this picture (${codec})`);
	later(true);
}
function start() {
	media.play().catch((error) => {
		// A phone that saves its battery may let nothing begin by itself.
		if (error.name === "NotAllowedError" && current) show("ready");
	});
}
function stop() {
	if (!current) return;
	current = null;
	player?.stop();
	player = null;
	media.removeAttribute("src");
	media.load();
}
// This way does not begin to play, or has broken off. Its source may be back soon.
function fail() {
	if (!current) return;
	moved = Date.now();
	if (!begun) return look(true);
	current = null;
	show("lost");
	later(false);
}
// Notes that the position has moved, or that it begins to.
function see(event) {
	const begins = event?.type === "playing";
	if (!current || media.readyState < 2 || (media.currentTime === at && !begins)) return;
	const isFirst = at < 0 && !begins, now = Date.now();
	at = media.currentTime;
	moved = now;
	if (isFirst || media.paused) return;
	begun ||= now;
	hasPlayed = true;
	// It has played for a while: a later failure is a new one.
	if (now - begun > 10e3) since = now, vain = 0;
	if (now - begun > 30e3) patience = PATIENCE_SECONDS;
	show("playing");
}

media.ontimeupdate = media.onplaying = see;
media.onended = () => {
	if (!current) return;
	current = null;
	show("ended");
	later(false);
};
media.onerror = () => { if (media.hasAttribute("src")) fail(); };
media.onpause = () => {
	if (!current || media.ended || media.error || !begun) return;
	pausedAt = Date.now();
	show("paused");
};
media.onplay = () => {
	// A live stream goes on where it is now, not where it was left.
	if (current && pausedAt && Date.now() - pausedAt > 5e3) play(current);
	else if (pausedAt) show("playing");
	pausedAt = 0;
	moved = Date.now();
};
media.onvolumechange = media.onloadedmetadata = showSound;

// Checks once a second whether the picture stands still.
setInterval(() => {
	see();
	if (!current || pausedAt || document.hidden || (state === "ready" && media.paused)) return void (moved = Date.now());
	const seconds = (Date.now() - moved) / 1000;
	if (!begun && seconds > current.seconds) fail();
	else if (begun && seconds > patience) {
		// The connection may be dead. The page asks anew, ever less often.
		patience = Math.min(300, patience * 2);
		look();
	} else if (begun && seconds > 3) show("late");
}, 1000);

// ---- What the user does

$("sound").onclick = () => {
	media.muted = false;
	if (media.paused) start();
	media.focus();
};
$("go").onclick = () => {
	// The buffer is old now.
	if (state === "ready" && current) return play(current);
	show("starting");
	look();
};
// The page is in view again, or the network is back.
function wake() {
	if (document.hidden || Date.now() < awakeUntil) return;
	awakeUntil = Date.now() + 10e3;
	look();
}
document.addEventListener("visibilitychange", () => current || wake());
addEventListener("online", wake);

// For other players and machines.
const elsewhere = (PUBLIC_URL || root) + stream.slice(root.length);
$("address").value = elsewhere;
$("hls").value = elsewhere + "/index.m3u8";
$("hls-way").hidden = isFolder(id);
// VLC takes this scheme on phones; elsewhere it opens a playlist that is downloaded.
const hasTouch = /Android|iPhone|iPad/.test(navigator.userAgent);
$("vlc").href = hasTouch ? `vlc://${elsewhere}` : URL.createObjectURL(new Blob([`#EXTM3U\n${elsewhere}\n`], { type: "audio/x-mpegurl" }));
if (hasTouch) $("vlc").removeAttribute("download");
$("command").value = `ffplay "${elsewhere}"`;
for (const input of document.querySelectorAll("#ways input")) input.onfocus = () => input.select();
for (const button of document.querySelectorAll("[data-copies]")) {
	button.ariaLabel = `Copy ${button.dataset.copies}`;
	button.onclick = () => copy($(button.dataset.copies).value, () => {
		button.textContent = "Copied";
		setTimeout(() => { button.textContent = "Copy"; }, 1500);
	});
}
look();

// ---- What is playing

// A stream that cannot be named by a path has no such file.
async function askTitle() {
	if (isFolder(id) || page.dataset.state !== "playing") return;
	const answer = await fetch(stream + "/now.json").catch(() => null);
	if (!answer?.ok) return;
	const { name, title } = await answer.json();
	if (page.dataset.state !== "playing") return;
	write("now", [name, title].filter(Boolean).join(": "));
	write("name", $("now").textContent || "Live stream");
	document.title = $("name").textContent;
}
setInterval(askTitle, 5000);
