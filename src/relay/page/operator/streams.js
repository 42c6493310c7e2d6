// The running streams: totals, rows, curves, and the viewers of one stream.

// ---- Curves

function remember(samples, sample) {
	samples.push(sample);
	while (samples[0].at < sample.at - CURVE_SECONDS_MAX) samples.shift();
}
const peakOf = (samples, of = "value") => samples.reduce((peak, sample) => Math.max(peak, sample[of]), 0);
const spanOf = (samples, now) => Math.max(CURVE_SECONDS_MIN, now - (samples[0]?.at ?? now));

// A curve of `{at, value}`, or of another field. Where nothing was asked for a while, it has a gap.
function draw(svg, samples, now, of = "value") {
	const scale = 36 / Math.max(1, peakOf(samples, of) * 1.1), span = spanOf(samples, now);
	let line = "", area = "", before = -Infinity;
	for (const { at, [of]: value } of samples) {
		const x = (300 * (1 - (now - at) / span)).toFixed(1), y = (39 - value * scale).toFixed(1);
		const isFirst = at - before > 6 * FIGURES_EVERY_SECONDS;
		if (isFirst && area) area += "V40Z";
		line += `${isFirst ? "M" : "L"}${x} ${y}`;
		area += isFirst ? `M${x} 40V${y}` : `L${x} ${y}`;
		before = at;
	}
	svg.children[0].setAttribute("d", area && area + "V40Z");
	svg.children[1].setAttribute("d", line);
}

// ---- Words about a stream

const PROTOCOLS = { http: "HTTP", hls: "HLS", rtmp: "RTMP", "rtp-udp": "RTP", udp: "UDP" };
const CUTS = { stalled: "stalled", lost_unit: "too slow", token: "token over", kicked: "kicked" };
const CODECS = { h264: "H.264", h265: "H.265", ac3: "AC-3", eac3: "E-AC-3", opus: "Opus", vorbis: "Vorbis", theora: "Theora" };
const CHANNELS = [, "mono", "stereo"];

// What tells a stream from others: the notes of its tokens, its station and its title.
function namesOf({ sessionid, name, title }) {
	const notes = [...sessions].filter(([id, { http }]) => http?.note && http.note !== "shared" && (http.for || id) === sessionid);
	return [...new Set([...notes.map(([, { http }]) => http.note), name, title])].filter(Boolean).join(", ");
}
function tracksText({ tracks, key_frame_seconds: distance }) {
	return tracks.map(({ codec, width, height, frame_rate: rate, sample_rate: samples, channels }) => [
		CODECS[codec] || codec.toUpperCase(),
		width && `${width}×${height}`,
		rate && `${+rate.toFixed(1)}/s`,
		width && distance && `key frame every ${+distance.toFixed(1)} s`,
		samples && `${samples / 1000} kHz`,
		channels && (CHANNELS[channels] || `${channels} channels`),
	].filter(Boolean).join(" ")).join("\n");
}
function skipsText({ skips, cuts }) {
	const reasons = Object.entries(cuts).filter(([, count]) => count).map(([reason, count]) => `${count} ${CUTS[reason] || reason}`);
	return [skips > 0 && "slow viewers missed some", ...reasons].filter(Boolean).join(", ");
}
// Refused sources that named this session, or a key to it.
function refusedText({ sessionid, session }) {
	const digests = [session, ...[...sessions.values()].filter(({ http }) => http?.for === sessionid).map(({ http }) => http.session)];
	const found = [...$("refusal-list").children].filter((row) => digests.includes(row.session) && row.time > serverNow() - LATELY_SECONDS);
	return found.length > 0 ? `${plural(found.length, "source")} refused lately: ${found[0].reason}` : "";
}

// ---- Streams

const streams = new Map();
const totals = {};
for (const name of ["Streams", "Viewers", "UDP", "Skips", "In", "Out"]) {
	const tile = clone("total-template");
	$("totals").append(tile);
	totals[name] = { samples: [], label: tile.firstChild, figure: tile.lastChild };
	write(tile.firstChild, name);
	if (name === "In" || name === "Out") tile.append((totals[name].curve = clone("curve-template")));
}
const isLive = (id) => [...streams.values()].some((stream) => stream.row.sessionid === id && !stream.isEnded);
// Curves out of view are not drawn.
const sight = new IntersectionObserver((entries) => {
	for (const { target, isIntersecting } of entries) {
		target.stream.isInView = isIntersecting;
		if (isIntersecting) target.stream.draw();
	}
});

class Stream {
	samples = [];
	isEnded = false;
	isInView = false;
	closePlayer = null;
	showsAudience = false;

	constructor(key, row) {
		this.key = key;
		this.row = row;
		this.body = clone("stream-template");
		this.body.stream = this;
		this.part("source").before(sessionName(row.sessionid));
		this.part("bitrate").before(clone("curve-template"));
		this.part("crowd").append(clone("curve-template"));
		this.part("uptime").title = `Since ${new Date(row.started_at * 1000).toLocaleString()}`;
		this.part("watch").onclick = () => this.toggle();
		this.part("viewers").onclick = () => this.toggleAudience();
		this.part("more").onclick = () => {
			const isWhole = (this.part("more").ariaExpanded = this.body.classList.toggle("whole"));
			label(this.part("more"), isWhole ? "Less" : "More", row.sessionid);
		};
		label(this.part("more"), "More", row.sessionid);
		this.part("abort").onclick = () => askAbort(this.row);
		label(this.part("abort"), "Abort", row.sessionid);
		this.paintWatch();
		sight.observe(this.body);
	}
	part(name) { return this.body.querySelector("." + name); }

	update(row, now, serverSeconds) {
		const hasFormatNow = !this.row.format && row.format;
		this.row = row;
		this.now = now;
		// Closes the player, and opens it with the format.
		if (hasFormatNow && this.closePlayer) {
			this.toggle();
			this.toggle();
		}
		// The time before this page was opened.
		if (row.history) this.samples = row.history.map(({ time, bitrate, viewers }) => ({ at: now - (serverSeconds - time), value: bitrate, viewers }));
		remember(this.samples, { at: now, value: row.bitrate, viewers: row.viewers, sent: row.bytes_sent });
		const texts = {
			source: row.source
				? [`${PROTOCOLS[row.source?.protocol]} ${row.source?.address}`, row.source?.user_agent, row.held && "broken: viewers wait"].filter(Boolean).join(", ")
				: "gone: the rest goes out",
			names: namesOf(row),
			bitrate: rateText(row.bitrate),
			format: FORMATS[row.format] || row.format || "unknown",
			type: tracksText(row) || row.content_type || "",
			udp: countText(row.udp_clients),
			rtp: (row.udp_clients > 0 && row.rtp) || "",
			skips: countText(row.skips),
			cuts: skipsText(row),
			refused: refusedText(row),
			uptime: durationText(serverSeconds - row.started_at),
			received: `${bytesText(row.bytes_received)} in`,
			sent: `${bytesText(row.bytes_sent)} out`,
		};
		for (const name in texts) write(this.part(name), texts[name]);
		write(this.part("viewers"), countText(row.viewers));
		this.part("viewers").ariaLabel = `${plural(row.viewers, "viewer")} of ${shortened(row.sessionid)}`;
		if (this.showsAudience) this.askAudience();
		this.part("skips").classList.toggle("warn", row.skips > 0);
		if (this.isInView) this.draw();
	}
	draw() {
		draw(this.part("curve"), this.samples, this.now);
		this.part("rate").title = `Peak ${rateText(peakOf(this.samples))} in ${durationText(spanOf(this.samples, this.now))}`;
		if (!this.showsAudience) return;
		draw(this.part("crowd").querySelector("svg"), this.samples, this.now, "viewers");
		write(this.part("crowd").querySelector("p"), `Viewers, last ${durationText(spanOf(this.samples, this.now))}: peak ${countText(peakOf(this.samples, "viewers"))}`);
	}
	// Bits a second that went out, over the last few answers.
	get rateOut() {
		const known = this.samples.filter((sample) => sample.sent !== undefined), last = known.at(-1), first = known.at(-3) || known[0];
		return this.isEnded || last === first ? 0 : Math.max(0, ((last.sent - first.sent) * 8) / (last.at - first.at));
	}
	toggle() {
		if (!this.closePlayer) {
			this.closePlayer = openPlayer(this.part("panel").firstElementChild, this.row.sessionid, this.row.format);
		} else {
			this.closePlayer();
			this.closePlayer = null;
			if (this.isEnded) return this.leave();
		}
		this.paintWatch();
	}
	toggleAudience() {
		this.showsAudience = !this.showsAudience;
		this.part("audience").hidden = !this.showsAudience;
		this.part("viewers").ariaExpanded = this.showsAudience;
		if (!this.showsAudience) return this.part("who").replaceChildren();
		this.draw();
		this.askAudience();
	}
	async askAudience() {
		const trouble = this.part("audience").querySelector(".trouble");
		try {
			const rows = await (await call("GET", `list-viewers?sessionid=${encode(this.row.sessionid)}`)).json();
			write(trouble, "");
			if (this.showsAudience) showAudience(this.part("who"), rows, this.row);
		} catch (refusal) {
			write(trouble, refusal.message);
		}
	}
	paintWatch() {
		const isOpen = this.closePlayer !== null, watch = this.part("watch");
		this.part("panel").hidden = !isOpen;
		this.body.classList.toggle("open", isOpen);
		watch.ariaExpanded = isOpen;
		label(watch, isOpen ? "Close" : "Watch", this.row.sessionid);
	}
	// The stream is over. An open player shows the rest of it, and stays until it is closed.
	end() {
		if (this.isEnded) return;
		this.isEnded = true;
		if (!this.closePlayer) return this.leave();
		this.body.classList.add("ended");
		this.closePlayer.over();
		takeAway(this.part("abort"), this.part("watch"));
		if (this.showsAudience) this.toggleAudience();
		write(this.part("bitrate"), "ended");
	}
	leave() {
		sight.unobserve(this.body);
		streams.delete(this.key);
		takeAway(this.body, $("streams-title"));
		filterStreams();
	}
	matches(words) {
		const { sessionid, source, format, content_type } = this.row;
		return [sessionid, source?.protocol, source?.address, source?.user_agent, FORMATS[format], content_type, namesOf(this.row), tracksText(this.row)].join("\n").toLowerCase().includes(words);
	}
}

// Lists the viewers of a stream. A row of before stays, and with it the focus.
function showAudience(list, rows, { sessionid }) {
	const before = new Map([...list.children].map((row) => [row.key, row]));
	for (const viewer of rows.slice(0, AUDIENCE_SHOWN_MAX)) {
		const row = before.get(viewer.id) || clone("viewer-template"), [who, figures, kick] = row.children;
		before.delete(viewer.id);
		row.key = viewer.id;
		const isUdp = viewer.datagrams_sent !== null;
		write(who, `${viewer.address || "somewhere"}, ${PROTOCOLS[viewer.way] || viewer.way}${viewer.state === "waiting" ? ", waits" : ""}`);
		const late = viewer.behind_ms > 1500 ? `, ${durationText(viewer.behind_ms / 1000)} behind` : "", skips = viewer.skips ? `, ${plural(viewer.skips, "skip")}` : "";
		write(figures, isUdp
			? `${plural(viewer.datagrams_sent, "datagram")}, ${countText(viewer.datagrams_dropped)} dropped`
			: `${viewer.since === null ? "" : durationText(serverNow() - viewer.since)}${viewer.bytes === null ? "" : `, ${bytesText(viewer.bytes)}`}${late}${skips}`);
		kick.hidden = isUdp;
		kick.ariaLabel = `Kick ${viewer.address}`;
		kick.onclick = () => askKick(viewer, sessionid);
		if (!row.isConnected) list.append(row);
	}
	for (const row of before.values()) takeAway(row, $("streams-title"));
	const more = rows.length - AUDIENCE_SHOWN_MAX;
	if (rows.length === 0 || more > 0) list.append(make("li", "quiet small", rows.length === 0 ? "Nobody watches." : `and ${countText(more)} more`));
}

function askKick({ id, address }, sessionid) {
	const text = `The viewer at ${address} is disconnected.`;
	ask("Kick this viewer?", sessionid, text, "Kick", { block: "Refuse that address with that key for" }, async (_, block) => {
		await call("DELETE", `kick-viewer?id=${encode(id)}${block}`);
		say(`Kicked ${address}.`);
		askStreams();
	});
}

function askAbort({ sessionid, source, viewers }) {
	const who = source ? `Its source, ${source?.address}, and` : "Its source is gone already;";
	const text = `${who} ${plural(viewers, "viewer")} are disconnected. Its tokens stay.`;
	ask("Abort this stream?", sessionid, text, "Abort stream", { block: "Refuse everybody in this session for" }, async (_, block) => {
		const done = await (await call("DELETE", `abort-stream?sessionid=${encode(sessionid)}${block}`)).json();
		say(`Aborted; ${plural(done.viewers, "viewer")} disconnected.`);
		askStreams();
	});
}

function showStreams(rows, now, serverSeconds) {
	const gone = new Map(streams);
	each(rows, (row) => {
		const key = row.id;
		gone.delete(key);
		if (!streams.has(key)) {
			streams.set(key, new Stream(key, row));
			$("stream-table").firstElementChild.append(streams.get(key).body);
		}
		streams.get(key).update(row, now, serverSeconds);
	});
	each(gone.values(), (stream) => stream.end());

	const sum = (name) => rows.reduce((total, row) => total + row[name], 0);
	const counts = { Streams: rows.length, Viewers: sum("viewers"), UDP: sum("udp_clients"), Skips: sum("skips") };
	for (const name in counts) write(totals[name].figure, countText(counts[name]));
	const rates = { In: sum("bitrate"), Out: [...streams.values()].reduce((total, stream) => total + stream.rateOut, 0) };
	for (const name in rates) {
		const { samples, label, figure, curve } = totals[name];
		remember(samples, { at: now, value: rates[name] });
		write(figure, rateText(rates[name]));
		write(label, `${name}, peak ${rateText(peakOf(samples))}`);
		draw(curve, samples, now);
	}
	write("stream-count", countText(rows.length));
	if (!hasChosenForm) setCompact(rows.length >= COMPACT_FROM);
	filterStreams();
	followFormat();
}
let hasChosenForm = false;
function setCompact(isCompact) {
	$("stream-table").classList.toggle("compact", isCompact);
	$("stream-compact").ariaPressed = isCompact;
}
$("stream-compact").onclick = () => {
	hasChosenForm = true;
	setCompact($("stream-compact").ariaPressed !== "true");
};
function filterStreams() {
	const words = $("stream-filter").value.toLowerCase();
	let matches = 0;
	each(streams.values(), (stream) => {
		stream.body.hidden = !stream.matches(words) && !stream.closePlayer;
		matches += !stream.body.hidden;
	});
	write("stream-matches", words && `${matches} of ${streams.size}`);
	$("stream-tools").hidden = streams.size < 6 && !words;
	$("stream-table").hidden = matches === 0;
	$("publish").hidden = streams.size > 0;
}
$("stream-filter").oninput = filterStreams;
$("stream-sort").onchange = () => {
	const by = $("stream-sort").value;
	const order = [...streams.values()].sort((a, b) => (by ? b.row[by] - a.row[by] : a.row.started_at - b.row.started_at));
	// A player that is moved starts anew. So open players stay where they are, before the others.
	for (const { body, closePlayer } of order) if (!closePlayer) body.parentNode.append(body);
};
