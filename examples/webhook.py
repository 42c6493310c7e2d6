#!/usr/bin/env python3
"""Posts every event of a relay to a webhook, as JSON: {"event": "stream-begins", "data": {...}}.

    examples/webhook.py http://127.0.0.1:8000 https://example.org/hook [EVENT ...]

Run it on a host of --token-server. With EVENTs, it posts only these. It never posts events of tokens, whose ids are
secrets. After a break it continues where it was. An event that the webhook refuses is logged and not posted again.
"""
import http.client, json, sys, time, urllib.request

relay, hook, wanted = sys.argv[1], sys.argv[2], sys.argv[3:]


def post(event, data):
    if event.startswith("token") or (wanted and event not in wanted):
        return
    body = json.dumps({"event": event, "data": data}).encode()
    try:
        urllib.request.urlopen(urllib.request.Request(hook, body, {"Content-Type": "application/json"}), timeout=10).close()
    except OSError as error:
        print(f"{event}: {error}", file=sys.stderr)


last = ""
while True:
    try:
        call = urllib.request.Request(f"{relay}/api/events", headers={"Last-Event-ID": last} if last else {})
        fields = {}
        for line in urllib.request.urlopen(call, timeout=40):  # The relay sends a comment every 15 s.
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                fields[name] = value
            elif "data" in fields:
                post(fields.get("event", "message"), json.loads(fields["data"]))
                last, fields = fields.get("id", last), {}
    except (OSError, ValueError, http.client.HTTPException) as error:
        print(f"{relay}: {error}", file=sys.stderr)
    time.sleep(1)
