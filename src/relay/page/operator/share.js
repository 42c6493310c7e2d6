// Shares a session: makes a key that may only watch, and shows its addresses.

// ---- QR code

const QR_BYTES = [0, 19, 34, 55, 80, 108];
const QR_CHECK_BYTES = [0, 7, 10, 15, 20, 26];
// The bits for error correction level L and mask 0.
const QR_FORMAT = 0x77c4;

function multiply(a, b) {
	let product = 0;
	for (; b > 0; b >>= 1, a = (a << 1) ^ (a > 127 ? 0x11d : 0)) if (b & 1) product ^= a;
	return product;
}
// The check bytes of a block (Reed-Solomon).
function checkBytes(block, count) {
	let divisor = [1], root = 1;
	for (let n = 0; n < count; n++, root = multiply(root, 2)) {
		divisor = [...divisor, 0].map((factor, at) => factor ^ multiply(divisor[at - 1] || 0, root));
	}
	const rest = [...block, ...Array(count).fill(0)];
	block.forEach((_, at) => {
		const factor = rest[at];
		divisor.forEach((by, n) => { rest[at + n] ^= multiply(by, factor); });
	});
	return rest.slice(block.length);
}
// The rows of a QR code (ISO/IEC 18004) in byte mode, versions 1 to 5, at most 106 bytes; null for a longer text.
function qrCode(text) {
	const bytes = [...new TextEncoder().encode(text)], version = QR_BYTES.findIndex((most) => bytes.length + 2 <= most);
	if (version < 1) return null;
	const digits = `4${[bytes.length, ...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}0`;
	const data = digits.match(/../g).map((pair) => parseInt(pair, 16));
	for (let pad = 0xec; data.length < QR_BYTES[version]; pad ^= 0xec ^ 0x11) data.push(pad);
	const all = [...data, ...checkBytes(data, QR_CHECK_BYTES[version])];

	const size = 4 * version + 17, rows = Array.from({ length: size }, () => Array(size).fill(null));
	const set = (x, y, isDark) => { if (rows[y]?.[x] !== undefined) rows[y][x] = Boolean(isDark); };
	const pattern = (x, y, reach, light) => {
		for (let dy = -reach; dy <= reach; dy++) for (let dx = -reach; dx <= reach; dx++) set(x + dx, y + dy, !light.includes(Math.max(Math.abs(dx), Math.abs(dy))));
	};
	for (const [x, y] of [[3, 3], [size - 4, 3], [3, size - 4]]) pattern(x, y, 4, [2, 4]);
	if (version > 1) pattern(size - 7, size - 7, 2, [1]);
	for (let at = 8; at < size - 8; at++) set(at, 6, at % 2 === 0), set(6, at, at % 2 === 0);
	for (let n = 0; n < 15; n++) {
		const bit = (QR_FORMAT >> n) & 1;
		if (n < 8) set(8, n < 6 ? n : n + 1, bit), set(size - 1 - n, 8, bit);
		else set(n === 8 ? 7 : 14 - n, 8, bit), set(8, size - 15 + n, bit);
	}
	set(8, size - 8, true);
	let at = 0;
	for (let right = size - 1; right > 0; right -= 2) {
		if (right === 6) right = 5;
		for (let step = 0; step < size; step++) {
			const y = ((right + 1) & 2) === 0 ? size - 1 - step : step;
			for (const x of [right, right - 1]) {
				if (rows[y][x] !== null) continue;
				const bit = ((all[at >> 3] || 0) >> (7 - (at & 7))) & 1;
				rows[y][x] = Boolean(bit) !== ((x + y) % 2 === 0);
				at += 1;
			}
		}
	}
	return rows;
}

// ---- The dialog

const randomId = () => btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(16)))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=/g, "");

// Opens the dialog for a session. `key` is a sessionid that can be given away; null makes one first.
function share(session, key) {
	write("share-id", visibleName(session));
	write("share-trouble", "");
	const fill = (key) => {
		$("share-form").hidden = $("share-make").hidden = key !== null;
		$("share-result").hidden = key === null;
		if (key !== null) showLinks(key, session);
	};
	$("share-form").onsubmit = async (event) => {
		event.preventDefault();
		const made = randomId(), terms = { expires: $("share-time").value, "max-viewers": $("share-viewers").value };
		let query = `add-token?type=http&sessionid=${made}&for=${encode(session)}&direction=out&note=shared`;
		for (const name in terms) if (terms[name]) query += `&${name}=${encode(terms[name])}`;
		write("share-trouble", "");
		try {
			await call("POST", query);
		} catch (refusal) {
			return write("share-trouble", refusal.message);
		}
		askTokens();
		fill(made);
	};
	fill(key);
	$("share").showModal();
}
// What is embedded depends on the format of the stream.
let followFormat = () => {};
function showLinks(key, session) {
	const link = elsewhere(watchUrl(key)), body = elsewhere(streamUrl(key));
	const formatNow = () => [...streams.values()].find(({ row, isEnded }) => row.sessionid === session && !isEnded)?.row.format, format = formatNow();
	followFormat = () => formatNow() !== format && showLinks(key, session);
	// Most streams need MP4, so it is the guess before the stream begins.
	const source = !format || REMUXED.includes(format) ? `${body}/live.mp4` : body;
	const rows = { Link: link, "VLC and other players": body, HLS: `${body}/index.m3u8`, "To embed": `<video src="${source}" autoplay muted playsinline controls></video>` };
	$("share-links").replaceChildren(...Object.entries(rows).map(([name, text]) => make("div", "", make("h3", "", name), commandLine(text))));
	const code = qrCode(link) || [], size = code.length + 8, picture = $("share-code");
	picture.setAttribute("viewBox", `0 0 ${size} ${size}`);
	picture.firstChild.setAttribute("d", code.flatMap((row, y) => row.map((isDark, x) => (isDark ? `M${x + 4} ${y + 4}h1v1h-1z` : ""))).join(""));
	picture.toggleAttribute("hidden", !code.length);
	write("share-long", code.length ? "" : "The link is too long for a QR code.");
	$("share-base").oninput = () => showLinks(key, session);
	$("share-local").hidden = !isLocal(link);
}
// A key that may only watch can be given away as it is. In an open relay every sessionid can.
function shareButton(session, key) {
	const button = make("button", "");
	button.type = "button";
	label(button, "Share", session);
	button.onclick = () => share(session, canBeShared(key) ? key : null);
	return button;
}
const canBeShared = (key) => isOpenRelay || (sessions.get(key)?.http?.direction === "out" && isOpen(sessions.get(key).http));
$("share-close").onclick = () => $("share").close();
