// The player of one session, which opens below its row.

// Where a browser gets the stream of this session, and as what, or in words why it cannot.
async function playable(url, format, media) {
	const ask = async (url) => {
		const stop = new AbortController(), head = await get(url, { method: "HEAD" }).catch(() => null);
		// Only the answer to GET says why.
		if (!head) await get(url, { signal: stop.signal });
		stop.abort();
	};
	await ask(url);
	if (!format) throw problem("The stream plays here when the server knows its format. ffplay, mpv or VLC may play it now.");
	const name = FORMATS[format] || format;
	if (PLAYABLE[format] && media.canPlayType(PLAYABLE[format])) return { url, isSound: PLAYABLE[format].startsWith("audio") };
	const words = `A browser does not play ${name}`;
	if (!REMUXED.includes(format) || url.includes("?") || !media.canPlayType("video/mp4")) throw problem(`${words}; ffplay, mpv or VLC may.`, 0, -1);
	try {
		await ask(url + "/live.mp4");
	} catch (refusal) {
		throw problem(`${words}, and the server cannot send it as MP4: ${refusal.message} ffplay, mpv or VLC may play it.`);
	}
	return { url: url + "/live.mp4", words: `${name}, as MP4` };
}

// Fills `place` with the session's address and, if a browser can play it, a player. Gives what tears it down.
function openPlayer(place, id, format) {
	const word = make("p", ""), buttons = make("div", "buttons"), side = make("div", "aside", word, buttons), media = make("video", "");
	let isClosed = false, timer = 0, key, url;
	word.role = "status";
	place.replaceChildren(make("div", "player", side));
	const tell = (text, isTrouble) => {
		write(word, text);
		word.className = isTrouble ? "trouble" : "";
	};
	// A stream that has ended is no fault. Other reasons may pass, so it tries again.
	const tellRefusal = ({ message, status, retryAfter }) => {
		if (isClosed) return;
		if (status === 404) return tell("The stream has ended.");
		tell(message, status > 0);
		if (retryAfter >= 0) timer = setTimeout(begin, 1000 * Math.max(retryAfter, PLAY_AGAIN_SECONDS));
	};
	const begin = () => play().catch(tellRefusal);
	async function play() {
		const keyNow = watchName(id);
		if (keyNow !== key) {
			[key, url] = [keyNow, streamUrl(keyNow ?? id)];
			buttons.replaceChildren(...(key === null ? [] : [shareButton(id, key)]));
			if (canBeShared(key)) buttons.append(copyButton("Copy address", elsewhere(url)), copyButton("Copy ffplay command", `ffplay "${elsewhere(url)}"`));
		}
		if (key === null) throw problem("No token lets anybody watch this session now: add a viewer key for it below.");
		const others = [...document.querySelectorAll("video, audio")].filter((player) => player !== media);
		if (others.length >= PLAYERS_MAX) throw problem(`At most ${PLAYERS_MAX} players can be open. Close one first.`);
		const { url: source, isSound, words } = await playable(url, format, media);
		if (isClosed) return;
		tell(words || "");
		media.hidden = false;
		media.controls = media.playsInline = true;
		media.ariaLabel = `Stream of session ${shortened(id)}`;
		media.onloadedmetadata = () => {
			media.classList.toggle("sound", media.videoWidth === 0);
			if (media.videoWidth === 0 && !isSound) tell("No picture: the stream has none, or this browser has no decoder for it.");
		};
		media.onended = () => tell("The stream has ended.");
		media.onerror = async () => {
			if (!media.hasAttribute("src")) return;
			media.hidden = media.readyState === 0;
			// A media element does not tell what the server said: ask again.
			const refusal = await playable(url, format, media).catch((refusal) => refusal);
			if (refusal instanceof Error) tellRefusal(refusal);
			else if (!isClosed) tell(`The browser cannot play on: ${media.error?.message || "it does not say why"}`, true);
		};
		media.src = source;
		side.before(media);
		media.play().catch(() => {});
	}
	begin();
	const close = () => {
		isClosed = true;
		clearTimeout(timer);
		media.removeAttribute("src");
		media.load();
		place.replaceChildren();
	};
	// It shows the rest. A media element does not always report the end.
	close.over = () => {
		clearTimeout(timer);
		tell("The stream has ended.");
	};
	return close;
}
