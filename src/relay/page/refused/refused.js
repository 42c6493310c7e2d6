// Looks once a minute whether the answer is another one now. Until then the page stays as it is.
setInterval(async () => {
	const answer = await fetch(location.href, { method: "HEAD", cache: "no-store" }).catch(() => null);
	if (answer?.ok) location.reload();
}, 60e3);
