// Asks the API again and again, and follows its events. The last file: it starts the page.

let failures = 0;
let tokensBefore = null;
let clockAhead = 0;
const serverNow = () => Date.now() / 1000 + clockAhead;

function setState(text, className, trouble) {
	write("state", text);
	$("state").className = className;
	write("failing", trouble);
}
// If tokens are off, the server says how to turn them on. Its own host sees the streams, and can change nothing.
let isOpenRelay = false, askedAt = 0;
const tokensAreOff = (refusal) => refusal.status === 403 && refusal.message.includes("--token-server");
function showSections(works) {
	for (const part of document.querySelectorAll(".works")) part.hidden = !works;
	for (const part of document.querySelectorAll(".gated")) part.hidden = !works || isOpenRelay;
	document.body.classList.toggle("looks-only", isOpenRelay);
	$("closed").hidden = works && !isOpenRelay;
	$("watch-form").hidden = !isOpenRelay;
	if (!works) $("publish").hidden = !isOpenRelay;
}

function describeRelay({ message }) {
	write("closed-title", isOpenRelay ? "An open relay: anyone may publish and watch" : "The API is closed to this page");
	write("closed-detail", message);
}

const askStreams = repeat(async () => {
	try {
		const isStale = Date.now() / 1000 - askedAt > 4 * UNTOLD_EVERY_SECONDS + NOTHING_EVERY_SECONDS;
		const response = await call("GET", isStale ? "list-streams?history=1" : "list-streams"), rows = await response.json(), now = Date.now() / 1000;
		askedAt = now;
		failures = 0;
		setState(isOpenRelay ? "open relay" : "live", "live", "");
		showSections(true);
		// Up-times go by the server's clock.
		clockAhead = (Date.parse(response.headers.get("Date")) / 1000 || now) - now;
		showStreams(rows, now, serverNow());
		each(tokenRows, ([id, row]) => sessions.has(id) && paintToken(row, id, sessions.get(id)));
		follow();
		return !isTold() || rows.some((row) => !row.format) ? UNTOLD_EVERY_SECONDS : rows.length ? FIGURES_EVERY_SECONDS : NOTHING_EVERY_SECONDS;
	} catch (refusal) {
		if (refusal.status === 403) {
			isOpenRelay = tokensAreOff(refusal);
			setState(isOpenRelay ? "open relay" : "closed", "", "");
			describeRelay(refusal);
			showSections(false);
			return TOKENS_EVERY_SECONDS;
		}
		failures += 1;
		setState("connection lost", "failing", `${refusal.message} This page tries again by itself.`);
		return Math.max(refusal.retryAfter | 0, Math.min(10, UNTOLD_EVERY_SECONDS * 2 ** failures));
	}
});

const askTokens = repeat(async () => {
	if ($("streams").hidden) return TOKENS_EVERY_SECONDS;
	try {
		const text = await (await call("GET", "list-tokens?details=1")).text();
		write("token-trouble", "");
		// Another server may be there now.
		if (isOpenRelay) {
			isOpenRelay = false;
			askStreams();
		}
		if (text !== tokensBefore) {
			readTokens(JSON.parse(text));
			showTokens();
			repaintNames();
			tokensBefore = text;
		}
		// With events, the page asks when the list changes. Otherwise it asks for a large list less often.
		return isTold() ? 600 : Math.min(60, TOKENS_EVERY_SECONDS * Math.ceil(text.length / 1e6));
	} catch (refusal) {
		if (tokensAreOff(refusal)) {
			if (!isOpenRelay) {
				isOpenRelay = true;
				describeRelay(refusal);
				askStreams();
			}
			return isTold() ? 600 : TOKENS_EVERY_SECONDS;
		}
		write("token-trouble", refusal.message);
		return Math.max(refusal.retryAfter | 0, TOKENS_EVERY_SECONDS);
	}
});

// ---- What happens

let happenings = null;
const isTold = () => happenings?.readyState === EventSource.OPEN;
// Asks once for all events of a moment.
function soon(act) {
	let timer = 0;
	return () => { timer ||= setTimeout(() => { timer = 0; act(); }, 300); };
}
const streamsSoon = soon(() => askStreams()), tokensSoon = soon(() => askTokens());
const HEARD = { "snapshot-end": () => { streamsSoon(); tokensSoon(); } };
const hear = (names, act) => { for (const name of names.split(" ")) HEARD[name] = act; };
hear("stream-begins stream-held stream-goes-on stream-ends stream-over viewer-comes viewer-goes", streamsSoon);
hear("token-added token-revoked token-over tokens-over token-forgotten", tokensSoon);
// Events after which nothing is asked.
hear("viewer-cut source-too-fast", () => {});
// Sources that were refused, also before this page was opened. The newest is first.
const REFUSALS_SHOWN_MAX = 16;
HEARD.refusal = HEARD["publisher-refused"] = ({ type, data }) => {
	const { time, address, session, status, detail } = JSON.parse(data), list = $("refusal-list"), key = time + address;
	if ([...list.children].some((row) => row.key === key)) return;
	const row = make("li", "small", make("span", "quiet", clockTime(time)), make("span", "", `a source at ${address}, session ${session}`), make("span", "quiet", `${status}: ${detail}`));
	Object.assign(row, { key, session, time, reason: detail });
	list[type === "refusal" ? "append" : "prepend"](row);
	streamsSoon();
	if (list.children.length > REFUSALS_SHOWN_MAX) list.lastChild.remove();
	$("refusals").hidden = false;
};
const EVENTS_KEPT = 100;
// Fields that a row of the list leaves out.
const EVENT_NAMES = ["time", "sessionid", "session", "id", "key", "for"];
function listEvent({ type, data }) {
	if (type === "snapshot-end" || type === "refusal") return;
	const fields = JSON.parse(data), id = fields.sessionid, sid = make("span", "sid", "");
	sid.repaint = () => write(sid, id ? visibleName(id) : "");
	sid.repaint();
	const rest = Object.entries(fields).filter(([name, value]) => !EVENT_NAMES.includes(name) && value !== null && typeof value !== "object");
	const at = new Date((fields.time || serverNow()) * 1000).toLocaleTimeString();
	$("event-list").prepend(make("li", "small", make("span", "quiet", at), make("span", "", type.replaceAll("-", " ")), sid, make("span", "quiet", rest.map(([name, value]) => `${name} ${value}`).join(", "))));
	if ($("event-list").children.length > EVENTS_KEPT) $("event-list").lastChild.remove();
	filterEvents();
}
function filterEvents() {
	const words = $("event-filter").value.toLowerCase();
	$("event-empty").hidden = $("event-list").children.length > 0;
	for (const row of $("event-list").children) row.hidden = !row.textContent.toLowerCase().includes(words);
}
$("event-filter").oninput = filterEvents;
function follow() {
	if (happenings || document.hidden || !window.EventSource) return;
	happenings = new EventSource(root + "api/events");
	for (const name in HEARD) happenings.addEventListener(name, (event) => { listEvent(event); HEARD[name](event); });
	happenings.onopen = askStreams;
	// If the server has no room for another reader of events, the page asks at intervals.
	happenings.onerror = () => {
		if (happenings?.readyState === EventSource.CLOSED) setTimeout(leave, 10e3);
		// Shows at once whether the server is lost, or only this connection.
		askStreams();
	};
}
function leave() {
	happenings?.close();
	happenings = null;
}
// A hidden page needs no connection.
document.addEventListener("visibilitychange", () => (document.hidden ? leave() : follow()));

askStreams().then(askTokens);
