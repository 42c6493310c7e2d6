// The tokens: the list, and the form that adds one. Also the page of an open relay.

let sessions = new Map(), withKeys = new Set();
let tokenCount = 0;
let hasTokens = false;
let sessionsMax = SESSIONS_STEP;
const tokenRows = new Map();

const clockTime = (seconds) => new Date(seconds * 1000).toLocaleString([], { dateStyle: "short", timeStyle: "short" });
const RIGHTS = { both: "HTTP", in: "publish only", out: "watch only" };

// The rights and limits over HTTP, in a few words each.
function labelsOf(http) {
	const { direction, for: opens, expires, ends, max_viewers, max_bitrate } = http, shuts = shutsOf(http), isOver = shuts <= serverNow();
	return [
		RIGHTS[direction] || "HTTP",
		opens && `key to ${visibleName(opens)}`,
		expires && !isOver && `lets in until ${clockTime(expires)}`,
		ends && !isOver && `ends ${clockTime(ends)}`,
		isOver && `over since ${clockTime(shuts)}`,
		max_viewers && `at most ${plural(max_viewers, "viewer")}`,
		max_bitrate && `at most ${rateText(max_bitrate)}`,
	].filter(Boolean);
}
const shutsOf = ({ expires, ends }) => Math.min(expires ?? Infinity, ends ?? Infinity);
const isOpen = (http) => http.direction !== "in" && shutsOf(http) > serverNow();

// The id that opens the session to viewers, best one that can be shared. Null if there is none.
function watchName(session) {
	if (isOpenRelay || !hasTokens) return session;
	const names = [...sessions].filter(([id, { http }]) => http && isOpen(http) && [id, http.for].includes(session)).map(([id]) => id);
	return names.find(canBeShared) ?? names[0] ?? null;
}

function readTokens(tokens) {
	sessions = new Map();
	withKeys = new Set(tokens.map((row) => row.for));
	tokenCount = tokens.length;
	for (const row of tokens) {
		const { sessionid, host, port } = row;
		if (!sessions.has(sessionid)) sessions.set(sessionid, { http: null, clients: [] });
		if (host === null) sessions.get(sessionid).http = row;
		else sessions.get(sessionid).clients.push(host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`);
	}
	hasTokens = true;
}
const labelsAll = ({ http, clients }) => [...(http ? labelsOf(http) : []), ...clients];
function showTokens() {
	const words = $("token-filter").value.toLowerCase();
	const found = ([id, entry]) => [id, entry.http?.for, entry.http?.note, ...labelsAll(entry)].join("\n").toLowerCase().includes(words);
	const matches = [...sessions].filter(found);
	const visible = new Map(matches.slice(0, sessionsMax));
	for (const [id, row] of tokenRows) {
		if (visible.has(id)) continue;
		tokenRows.delete(id);
		takeAway(row, $("tokens-title"));
	}
	let next = $("token-list").firstChild;
	each(visible, ([id, entry]) => {
		const row = tokenRows.get(id) || newTokenRow(id);
		if (row === next) next = next.nextSibling;
		else $("token-list").insertBefore(row, next);
		paintToken(row, id, entry);
	});
	write("token-count", countText(tokenCount));
	write("token-matches", words && `${countText(matches.length)} of ${plural(sessions.size, "session")}`);
	write("token-empty", sessions.size ? "No token matches." : "No tokens: nobody can publish or watch. Add one for a session, and give its id to publishers and viewers.");
	write("more-note", `${countText(visible.size)} of ${plural(matches.length, "session")}`);
	$("token-tools").hidden = sessions.size < 6 && !words;
	$("token-empty").hidden = matches.length > 0;
	$("more").hidden = matches.length <= sessionsMax;
}
function newTokenRow(id) {
	const row = clone("token-template"), revoke = row.querySelector(".revoke");
	tokenRows.set(id, row);
	row.prepend(sessionName(id));
	label(revoke, "Revoke", id);
	revoke.onclick = () => askRevoke(id);
	return row;
}
function paintToken(row, id, entry) {
	const labels = labelsAll(entry), { http } = entry, isPublisher = http?.direction === "in";
	const signature = [isLive(http?.for || id), http?.note, ...labels].join();
	if (row.signature === signature) return;
	row.signature = signature;
	const chips = labels.map((text) => make("span", text.startsWith("over ") ? "chip over" : "chip", text)), rest = chips.splice(CHIPS_MAX);
	if (isLive(http?.for || id)) chips.unshift(make("span", "chip live", "live"));
	if (rest.length) chips.push(make("details", "", make("summary", "small", `${rest.length} more`), ...rest));
	if (http?.note) chips.push(make("span", "note", http.note));
	row.querySelector("div").replaceChildren(...chips);
	const link = row.querySelector(".link");
	link.hidden = !http;
	label(link, isPublisher ? "Copy address" : "Share", id);
	link.onclick = () => (isPublisher ? copyBy(link, elsewhere(streamUrl(id))) : share(http.for || id, canBeShared(id) ? id : null));
}
$("token-filter").oninput = () => { sessionsMax = SESSIONS_STEP; showTokens(); };
$("more-button").onclick = () => { sessionsMax += SESSIONS_STEP; showTokens(); };

function askRevoke(id) {
	const entry = sessions.get(id), labels = labelsAll(entry), isKey = Boolean(entry.http?.for), count = entry.clients.length + (entry.http ? 1 : 0), listed = labels.slice(0, 4).join(", ") + (labels.length > 4 ? " and more" : "");
	const text = `${plural(count, "token")}: ${listed}.${entry.clients.length ? " RTP stops at once." : ""}${entry.http ? " Connected HTTP clients stay until their stream ends." : ""}`;
	const choice = isKey ? "Disconnect everybody who uses this key, too" : isLive(id) && "End its running stream, too";
	ask(isKey ? "Revoke this key?" : "Revoke this session’s tokens?", id, text, "Revoke", { choice }, async (ends) => {
		const done = await (await call("DELETE", `revoke-token?sessionid=${encode(id)}${ends ? "&abort=true" : ""}`)).json();
		say(`${plural(done.revoked, "token")} revoked.`);
		askTokens();
		askStreams();
	});
}

$("add-random").onclick = () => { $("add-id").value = randomId(); };
const directionOf = () => document.querySelector("[name=add-direction]:checked").value;
// A time of the form in seconds. If the text is no number, the server refuses it and says why.
function secondsOf(place) {
	const { value } = $(place), unit = Number($(`${place}-unit`).value);
	const seconds = unit ? value * unit : Date.parse(value) / 1000 - serverNow();
	return value && Number.isFinite(seconds) ? Math.round(seconds) : value;
}
// Says what the form would make.
function describeKey() {
	const session = $("add-for").value, viewers = $("add-viewers").value, expires = secondsOf("add-expires"), ends = secondsOf("add-ends");
	const who = { in: "an encoder can publish", out: "viewers can watch", both: "an encoder can publish, and viewers can watch," }[directionOf()];
	const http = [
		`With this id ${who} ${session ? `session ${session}` : "the session of this name"}${viewers ? `, at most ${viewers} at a time` : ""}.`,
		expires > 0 && `It lets people in for ${durationText(expires)}.`,
		ends > 0 && `It disconnects everybody after ${durationText(ends)}.`,
	];
	write("add-sentence", [...($("add-http").checked ? http : []), $("add-rtp").checked && "The UDP clients get RTP, and may send it."].filter(Boolean).join(" "));
}
$("add-ends-unit").innerHTML = $("add-expires-unit").innerHTML;
for (const name of ["add-expires", "add-ends"]) {
	$(`${name}-unit`).onchange = (event) => {
		const type = event.target.value ? "text" : "datetime-local";
		if ($(name).type !== type) $(name).value = "";
		$(name).type = type;
	};
}
for (const field of $("add-form").querySelectorAll("input, textarea")) field.setAttribute("aria-describedby", "add-trouble");
$("add-form").oninput = describeKey;
describeKey();
$("add-form").onchange = () => {
	describeKey();
	$("add-clients-row").hidden = !$("add-rtp").checked;
	$("add-direction-row").hidden = $("add-terms").hidden = !$("add-http").checked;
};
$("add-form").onsubmit = async (event) => {
	event.preventDefault();
	const id = $("add-id").value, isHttp = $("add-http").checked, isRtp = $("add-rtp").checked, direction = directionOf();
	const terms = { for: $("add-for"), expires: $("add-expires"), ends: $("add-ends"), "max-viewers": $("add-viewers"), "max-bitrate": $("add-bitrate"), note: $("add-note") };
	const fields = { "udp-clients": $("add-clients"), ...terms, sessionid: $("add-id"), type: $("add-http") };
	const types = [isHttp && "http", isRtp && "rtp-udp"].filter(Boolean);
	let query = `add-token?type=${types}&sessionid=${encode(id)}`;
	if (isRtp) query += `&udp-clients=${fields["udp-clients"].value.split(/[\s,]+/).filter(Boolean).map(encode)}`;
	if (isHttp) query += `&direction=${direction}`;
	for (const name in terms) {
		const value = ["expires", "ends"].includes(name) ? secondsOf(`add-${name}`) : terms[name].value;
		if (isHttp && value) query += `&${name}=${encode(value)}`;
	}
	for (const name in fields) fields[name].ariaInvalid = null;
	write("add-trouble", "");
	$("add-result").hidden = $("add-button").disabled = true;
	try {
		const response = await call("POST", query), { tokens } = await response.json();
		const words = response.status === 201 ? `Added: the session has ${plural(tokens.length, "token")} now.` : "Nothing new: the session had all that.";
		const forWatching = direction === "in" ? [] : [shareButton($("add-for").value || id, id)];
		const forPublishing = direction === "out" ? [] : [copyButton("Copy address", elsewhere(streamUrl(id))), copyButton("Copy ffmpeg command", pictureCommand(id))];
		const buttons = make("div", "buttons", ...(isHttp ? [...forWatching, ...forPublishing] : []));
		$("add-result").replaceChildren(make("p", "", words), sessionName(id), buttons);
		$("add-result").hidden = false;
		for (const name of ["sessionid", "udp-clients", "note"]) fields[name].value = "";
		say(words);
		askTokens();
	} catch (refusal) {
		write("add-trouble", refusal.message);
		const name = Object.keys(fields).find((field) => new RegExp(`^${field}\\b|'${field}'`).test(refusal.message)) || Object.keys(fields).find((field) => refusal.message.includes(field));
		if (name) {
			if (name in terms) $("add-terms").open = true;
			fields[name].ariaInvalid = "true";
			fields[name].focus();
		}
	}
	$("add-button").disabled = false;
};

// ---- Without a stream, and without the API

$("publish").append(make("h3", "", "Publish a stream"), make("p", "gated", "First add an HTTP token for its session, in the form below."),
	make("p", "quiet", "A test picture, which a browser plays:"), commandLine(pictureCommand("demo")),
	make("p", "quiet", "A file:"), commandLine(`ffmpeg -re -i film.mp4 -c copy -f mpegts -send_expect_100 1 -method PUT ${elsewhere(streamUrl("demo"))}`));

$("watch-form").onsubmit = (event) => {
	event.preventDefault();
	location.href = watchUrl($("watch-id").value);
};

// Narrow screens show cards: say the table's roles.
for (const [selector, role] of Object.entries({ table: "table", "thead, tbody": "rowgroup", tr: "row", "thead th": "columnheader", "tbody th": "rowheader", td: "cell" })) {
	for (const root of [document, $("stream-template").content]) for (const node of root.querySelectorAll(selector)) node.role = role;
}
