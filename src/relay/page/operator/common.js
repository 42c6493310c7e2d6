// Words and numbers, the API and dialogs, for all parts of the page. The files of this page are one
// script: `relay/page.rs` joins them in the order of index.html.

// What a browser may be able to play, and the media type to ask it about.
const PLAYABLE = { webm: "video/webm", mp4: "video/mp4", ogg: "application/ogg", mp3: "audio/mpeg", aac: "audio/aac" };
const FORMATS = { webm: "WebM", matroska: "Matroska", mpegts: "MPEG-TS", ogg: "Ogg", mp4: "MP4", flv: "FLV", mp3: "MP3", aac: "AAC" };
// A curve shows the last hour, or the time since the start.
const CURVE_SECONDS_MIN = 300, CURVE_SECONDS_MAX = 3600;
// The server also sends these as MP4, which browsers play.
const REMUXED = ["mpegts", "flv", "matroska"];
// The server reports events by itself. The page asks for figures, and for everything if events do not come.
const FIGURES_EVERY_SECONDS = 5;
const NOTHING_EVERY_SECONDS = 30;
const UNTOLD_EVERY_SECONDS = 2;
const TOKENS_EVERY_SECONDS = 10;
// A browser has six connections to a server: one for what happens, one for each player, and the API needs some.
const PLAYERS_MAX = 3;
const PLAY_AGAIN_SECONDS = 3;
const AUDIENCE_SHOWN_MAX = 100;
const LATELY_SECONDS = 600;
const COMPACT_FROM = 12;
const SESSIONS_STEP = 100;
const CHIPS_MAX = 8;

const clone = (id) => $(id).content.firstElementChild.cloneNode(true);
function make(name, className, ...content) {
	const node = document.createElement(name);
	node.className = className;
	node.append(...content);
	return node;
}

// ---- Words and numbers

function threeDigits(value, ...units) {
	while (value >= 999.5 && units.length > 1) { value /= 1000; units.shift(); }
	const isWhole = Number.isInteger(value) || value >= 99.95;
	return `${value.toFixed(isWhole ? 0 : value >= 9.995 ? 1 : 2)} ${units[0]}`;
}
const rateText = (bits) => threeDigits(Math.round(bits), "bit/s", "kbit/s", "Mbit/s", "Gbit/s");
const bytesText = (bytes) => threeDigits(bytes, "B", "kB", "MB", "GB", "TB");
const countText = (count) => count.toLocaleString("en");
const plural = (count, word) => `${countText(count)} ${word}${count === 1 ? "" : "s"}`;

function durationText(seconds) {
	const s = Math.max(0, Math.floor(seconds)), m = Math.floor(s / 60), h = Math.floor(m / 60), d = Math.floor(h / 24);
	return (d ? `${d} d ${h % 24} h` : h ? `${h} h ${m % 60} min` : m ? `${m} min ${s % 60} s` : `${s} s`).replace(/ 0 .*/, "");
}

// A proxy may have the server below a path of its own.
const root = new URL(".", location.href).href;
const streamUrl = (id) => root + "stream" + sessionPath(id);
const watchUrl = (id) => root + "watch" + sessionPath(id);
// The same address for others: below --public-url, or below the typed address.
const isLocal = (url) => /^https?:\/\/(localhost|127\.|\[::1\])/.test(url);
const elsewhere = (url) => $("share-base").value.replace(/\/*$/, "/") + url.slice(root.length);
$("share-base").value = PUBLIC_URL || root;
const pictureCommand = (id) => `ffmpeg -re -f lavfi -i testsrc2=size=640x360:rate=25 -c:v libvpx -deadline realtime -b:v 1M -g 50 -cluster_time_limit 1000 -f webm -send_expect_100 1 -method PUT ${elsewhere(streamUrl(id))}`;

// ---- Session ids: the page shows secret ones whole only on request

const shown = new Set();
let showsAll = false;

function shortened(id) {
	const letters = Array.from(id);
	return letters.slice(0, Math.min(4, Math.ceil(letters.length / 3))).join("") + "…" + (letters.length < 16 ? "" : letters.slice(-2).join(""));
}
// The id of a session that only keys open is no secret. Any other may be one.
const isSecret = (id) => (sessions.has(id) ? Boolean(sessions.get(id).http) : !withKeys.has(id));
const visibleName = (id) => (showsAll || shown.has(id) || !isSecret(id) ? id : shortened(id));
function sessionName(id) {
	const node = clone("sid-template"), [name, show, copying] = node.children;
	node.repaint = () => {
		write(name, visibleName(id));
		show.hidden = showsAll || !isSecret(id);
		show.ariaPressed = shown.has(id);
	};
	show.ariaLabel = show.title = `Show session id ${shortened(id)}`;
	copying.ariaLabel = copying.title = `Copy session id ${shortened(id)}`;
	show.onclick = () => {
		if (!shown.delete(id)) shown.add(id);
		repaintNames();
	};
	copying.onclick = () => copyBy(copying, id);
	node.repaint();
	return node;
}

function repaintNames() {
	for (const name of document.querySelectorAll("span.sid")) name.repaint?.();
	for (const stream of streams.values()) write(stream.part("names"), namesOf(stream.row));
}
$("show-names").onclick = () => {
	showsAll = !showsAll;
	$("show-names").ariaPressed = showsAll;
	repaintNames();
};

// A button's words. A screen reader also says the session id.
function label(button, words, id) {
	write(button, words);
	button.ariaLabel = `${words} ${shortened(id)}`;
}

// A button that copies shows that it has.
function copyBy(button, text) {
	copy(text, () => {
		button.classList.add("done");
		setTimeout(() => button.classList.remove("done"), 1500);
	});
}
function copyButton(words, text) {
	const button = make("button", "", words);
	button.type = "button";
	button.onclick = () => copyBy(button, text);
	return button;
}
const commandLine = (text) => make("div", "together", make("code", "", text), copyButton("Copy", text));

// ---- The API

const problem = (message, status = 0, retryAfter = 0) => Object.assign(new Error(message), { status, retryAfter });

async function get(path, options) {
	let response;
	try {
		response = await fetch(path, { cache: "no-store", ...options });
	} catch {
		throw problem("The server does not answer.");
	}
	if (response.ok) return response;
	const { detail, title } = await response.json().catch(() => ({}));
	throw problem(detail || title || `HTTP status ${response.status}`, response.status, Number(response.headers.get("Retry-After")));
}
const call = (method, what) => get(root + "api/" + what, { method, signal: AbortSignal.timeout(20000) });

// Runs `turn` repeatedly while the page is in view, one at a time. `turn` returns the seconds to the next run.
function repeat(turn) {
	let timer = 0, isRunning = false, isWanted = false;
	async function run() {
		clearTimeout(timer);
		isWanted = isRunning;
		if (document.hidden || isRunning) return;
		isRunning = true;
		const seconds = await turn();
		isRunning = false;
		if (isWanted) run();
		else if (!document.hidden) timer = setTimeout(run, seconds * 1000);
	}
	document.addEventListener("visibilitychange", run);
	return run;
}

// ---- A question first

// On yes runs `act`. If the server refuses it, the dialog stays and says why. `choice` labels a further action, `block` a time of refusal.
function ask(title, id, text, yes, { choice, block }, act) {
	const button = $("ask-yes");
	write("ask-title", title);
	write("ask-id", visibleName(id));
	write("ask-text", text);
	write("ask-trouble", "");
	write(button, yes);
	$("ask-choice").hidden = !choice;
	write("ask-box-text", choice || "");
	$("ask-box").checked = false;
	$("ask-block-row").hidden = !block;
	write("ask-block-label", block || "");
	$("ask-block").value = "";
	button.onclick = async () => {
		button.disabled = true;
		write("ask-trouble", "");
		try {
			await act(Boolean(choice) && $("ask-box").checked, block && $("ask-block").value ? `&block=${$("ask-block").value}` : "");
			$("ask").close();
		} catch (refusal) {
			write("ask-trouble", refusal.message);
		}
		button.disabled = false;
	};
	$("ask").showModal();
}
$("ask-no").onclick = () => $("ask").close();

// Removes a node. If it has the focus, `refuge` gets the focus, not the top of the page.
function takeAway(node, refuge) {
	const hadFocus = node.contains(document.activeElement);
	node.remove();
	if (hadFocus) refuge.focus({ preventScroll: true });
}

// If one row cannot be shown, the others are.
function each(rows, show) {
	for (const row of rows) {
		try {
			show(row);
		} catch (error) {
			console.error(error);
		}
	}
}
