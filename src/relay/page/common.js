// What the pages share: elements and text, addresses, the clipboard.
"use strict";

const $ = (id) => document.getElementById(id);

// Writes only what has changed, into the text that is there: selections stay.
function write(place, text) {
	const node = typeof place === "string" ? $(place) : place;
	if (node.textContent === text) return;
	if (text && node.firstChild) node.firstChild.data = text;
	else node.textContent = text;
}
function say(text) { write("said", ""); write("said", text); }

// Percent-encoded, for a shell, too.
const encode = (text) => encodeURIComponent(text).replace(/[!'()*]/g, (c) => "%" + c.charCodeAt(0).toString(16).toUpperCase());
// In a path, a browser would take "." and ".." for folders.
const isFolder = (id) => /^\.\.?$/.test(id);
const sessionPath = (id) => (isFolder(id) ? "?sessionid=" : "/") + encode(id);

// Copies a text, and calls `done` if the browser lets it.
async function copy(text, done) {
	try {
		await navigator.clipboard.writeText(text);
	} catch {
		// Without TLS there is no clipboard but on localhost; this older way is.
		const area = document.createElement("textarea"), focused = document.activeElement;
		area.className = "unseen";
		area.value = text;
		// Below an open dialog nothing can be selected.
		(document.querySelector("dialog[open]") || document.body).append(area);
		area.select();
		const isCopied = document.execCommand("copy");
		area.remove();
		focused.focus();
		if (!isCopied) return say("The browser does not let this page copy.");
	}
	say("Copied.");
	done();
}
